"""qwen2_moe: the attention of qwen2, a mixture whose router weighs all experts, and a shared expert."""

from dllama_py.model.qwen3_moe import layer

__all__ = ["layer"]
