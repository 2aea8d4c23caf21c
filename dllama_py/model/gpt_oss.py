"""gpt_oss: every second layer sees a window of positions, heads have sinks, and everything has biases; `attention` and
`mixture_of_experts` do so where the config says it.
"""

from dllama_py.model.qwen3_moe import layer

__all__ = ["layer"]
