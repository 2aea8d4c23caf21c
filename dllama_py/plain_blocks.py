"""Blocks of 32 columns with one scale, as they lie in a file (ggml-common.h): Q4_0, Q4_1, Q5_0, Q5_1, Q8_0."""

from collections.abc import Callable

import numpy as np

from dllama_py.block_parts import Parts, half, nibbles, ones
from dllama_py.float_types import Bytes, FloatType


def _q40(blocks: Bytes) -> Parts:
    return Parts(nibbles(blocks[..., 2:]).view(np.int8) - np.int8(8), half(blocks, 0), ones(blocks))


def _q41(blocks: Bytes) -> Parts:
    codes = nibbles(blocks[..., 4:]).view(np.int8)
    return Parts(codes, half(blocks, 0), ones(blocks), half(blocks, 2), ones(blocks))


def _q50(blocks: Bytes) -> Parts:
    codes = nibbles(blocks[..., 6:]) | _fifth_bits(blocks[..., 2:6])
    return Parts(codes.view(np.int8) - np.int8(16), half(blocks, 0), ones(blocks))


def _q51(blocks: Bytes) -> Parts:
    codes = nibbles(blocks[..., 8:]) | _fifth_bits(blocks[..., 4:8])
    return Parts(codes.view(np.int8), half(blocks, 0), ones(blocks), half(blocks, 2), ones(blocks))


def _q80(blocks: Bytes) -> Parts:
    return Parts(blocks[..., 2:].view(np.int8), half(blocks, 0), ones(blocks))


def _fifth_bits(packed: Bytes) -> Bytes:
    """Four bytes, one bit a column -> 0 or 16 [..., 32]."""
    return np.unpackbits(packed, axis=-1, bitorder="little") << np.uint8(4)


PARTS: dict[FloatType, Callable[[Bytes], Parts]] = {
    FloatType.Q40: _q40,
    FloatType.Q41: _q41,
    FloatType.Q50: _q50,
    FloatType.Q51: _q51,
    FloatType.Q80: _q80,
}
"""By type: file blocks uint8 [..., block_bytes] -> their parts."""
