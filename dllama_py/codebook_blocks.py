"""Blocks whose codes are numbers of a table (ggml-common.h), as they lie in a file."""

from collections.abc import Callable

from dllama_py.block_parts import Parts
from dllama_py.float_types import Bytes, FloatType

PARTS: dict[FloatType, Callable[[Bytes], Parts]] = {}
"""By type: file blocks uint8 [..., block_bytes] -> their parts."""
