"""gemma3: as llama, but that most layers see a window of positions, sums are normed before they are added, and the
feed-forward has gelu; `attention` and `dense_feed_forward` do so where the config says it.
"""

from dllama_py.model.llama import layer

__all__ = ["layer"]
