"""The super-blocks of 256 columns of ggml's K types, as they lie in a file (ggml-common.h)."""

from collections.abc import Callable

import numpy as np

from dllama_py.block_parts import Parts, bit_fields, half
from dllama_py.float_types import Bytes, FloatType


def _q2k(blocks: Bytes) -> Parts:
    """16 bytes of scale and minimum (a nibble each), 64 of codes, half scale, half minimum."""
    scales = blocks[..., :16]
    codes = _in_spans(blocks[..., 16:80], 2)
    return Parts(codes.view(np.int8), half(blocks, 80), scales & 15, -half(blocks, 82), scales >> 4)


def _q3k(blocks: Bytes) -> Parts:
    """32 bytes of high bits (bit i: 32 columns from 32i), 64 of low ones, 12 of scales, half scale."""
    codes = _in_spans(blocks[..., 32:96], 2) | bit_fields(blocks[..., :32], 1) << 2
    scales = bit_fields(blocks[..., 96:104], 4) | bit_fields(blocks[..., 104:108], 2) << 4
    return Parts(codes.view(np.int8) - np.int8(4), half(blocks, 108), scales.view(np.int8) - np.int8(32))


def _q4k(blocks: Bytes) -> Parts:
    """Half scale, half minimum, 12 bytes of scales and minima, 128 of codes."""
    scales, minima = _sixes(blocks[..., 4:16])
    codes = _in_spans(blocks[..., 16:144], 4)
    return Parts(codes.view(np.int8), half(blocks, 0), scales, -half(blocks, 2), minima)


def _q5k(blocks: Bytes) -> Parts:
    """As q4_k, with 32 bytes of high bits (bit i: 32 columns from 32i) before the codes."""
    scales, minima = _sixes(blocks[..., 4:16])
    codes = _in_spans(blocks[..., 48:176], 4) | bit_fields(blocks[..., 16:48], 1) << 4
    return Parts(codes.view(np.int8), half(blocks, 0), scales, -half(blocks, 2), minima)


def _q6k(blocks: Bytes) -> Parts:
    """128 bytes of low nibbles (64 for 128 columns), 64 of high bit pairs, 16 signed scales, half scale."""
    low = np.concatenate([bit_fields(blocks[..., :64], 4), bit_fields(blocks[..., 64:128], 4)], axis=-1)
    codes = low | _in_spans(blocks[..., 128:192], 2) << 4
    return Parts(codes.view(np.int8) - np.int8(32), half(blocks, 208), blocks[..., 192:208].view(np.int8))


def _in_spans(packed: Bytes, width: int) -> Bytes:
    """Runs of 32 bytes, each with the lowest fields of 32 columns first, then the next fields of the next 32."""
    runs = packed.reshape(*packed.shape[:-1], -1, 32)
    return bit_fields(runs, width).reshape(*packed.shape[:-1], -1)


def _sixes(packed: Bytes) -> tuple[Bytes, Bytes]:
    """12 bytes -> 8 scales and 8 minima of 6 bits; the upper two bits of the last four lie with the first four."""
    first, second, low = packed[..., :4], packed[..., 4:8], packed[..., 8:]
    scales = np.concatenate([first & 63, low & 15 | first >> 6 << 4], axis=-1)
    minima = np.concatenate([second & 63, low >> 4 | second >> 6 << 4], axis=-1)
    return scales, minima


PARTS: dict[FloatType, Callable[[Bytes], Parts]] = {
    FloatType.Q2K: _q2k,
    FloatType.Q3K: _q3k,
    FloatType.Q4K: _q4k,
    FloatType.Q5K: _q5k,
    FloatType.Q6K: _q6k,
}
"""By type: file blocks uint8 [..., block_bytes] -> their parts."""
