"""qwen2: as llama; q, k and v have biases, which `attention` adds where the config says so."""

from dllama_py.model.llama import layer

__all__ = ["layer"]
