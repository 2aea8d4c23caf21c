"""mixtral: the attention of llama, a mixture of experts for feed-forward."""

from dllama_py.model.qwen3_moe import layer

__all__ = ["layer"]
