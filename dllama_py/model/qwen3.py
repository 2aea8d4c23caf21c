"""qwen3: as llama; query and key heads are normalised, which `attention` does where the config says so."""

from dllama_py.model.llama import layer

__all__ = ["layer"]
