"""Blocks whose codes are numbers of a table, as they lie in a file (ggml-common.h; the values are ggml-quants.c's).

The codes given here are the table's entries with their signs. A codeword is a run of 8 (or 4) columns, see `codebooks`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dllama_py.block_parts import Parts, half, nibbles, ones
from dllama_py.codebooks import (
    IQ1_BOOK,
    IQ2_S_BOOK,
    IQ2_XS_BOOK,
    IQ2_XXS_BOOK,
    IQ3_S_BOOK,
    IQ3_XXS_BOOK,
    IQ4_LEVELS,
    MXFP4_LEVELS,
    codewords_of,
)
from dllama_py.float_types import Bytes, Floats, FloatType

Signed = NDArray[np.int8]
Numbers = NDArray[np.int64]
_QUARTER, _EIGHTH = np.float32(0.25), np.float32(0.125)


def _iq4nl(blocks: Bytes) -> Parts:
    """Half scale, 16 bytes of nibbles: columns j and j + 16."""
    return Parts(_levels(IQ4_LEVELS, blocks[..., 2:]), half(blocks, 0), ones(blocks))


def _mxfp4(blocks: Bytes) -> Parts:
    """A power of two as its exponent, 16 bytes of nibbles."""
    return Parts(_levels(MXFP4_LEVELS, blocks[..., 1:]), half_power_of_two(blocks[..., :1]), ones(blocks))


def half_power_of_two(exponents: Bytes) -> Floats:
    """2^(e - 128), half of what the exponent says, because the levels are doubled; below 2 it is subnormal."""
    e = exponents.astype(np.uint32)
    bits = np.where(e < 2, 1 << (21 + np.minimum(e, 1)), (np.maximum(e, 1) - 1) << 23)
    return bits.astype(np.uint32).view(np.float32)


def _iq4xs(blocks: Bytes) -> Parts:
    """Half scale, 8 x 2 high bits and 8 nibbles of scales of 32 columns, 8 x 16 bytes of nibbles."""
    high = _u16(blocks, 2, 4) >> np.arange(0, 16, 2) & 3  # [..., 8]
    codes = _levels(IQ4_LEVELS, blocks[..., 8:].reshape(*blocks.shape[:-1], 8, 16))
    return Parts(_columns(blocks, codes), half(blocks, 0), _bits(blocks[..., 4:8], 4) + 16 * high - 32)


def _iq2xxs(blocks: Bytes) -> Parts:
    """Half scale; of each 32 columns 4 numbers of codewords, then as u32 four sevens of signs and a scale."""
    runs = blocks[..., 2:].reshape(*blocks.shape[:-1], 8, 8)
    signs, scales = _sevens_and_scale(runs[..., 4:])
    codes = codewords_of(IQ2_XXS_BOOK)[runs[..., :4]] * signs
    return Parts(_columns(blocks, codes), half(blocks, 0) * _EIGHTH, scales)


def _iq2xs(blocks: Bytes) -> Parts:
    """Half scale; 32 u16 of 9 bits of number and 7 of signs; a nibble of scale for each 16 columns."""
    packed = _u16(blocks, 2, 66)  # [..., 32]
    codes = codewords_of(IQ2_XS_BOOK)[packed & 511] * _signs(with_eighth_sign(packed >> 9))
    return Parts(_columns(blocks, codes), half(blocks, 0) * _EIGHTH, _odd(blocks[..., 66:]))


def _iq2s(blocks: Bytes) -> Parts:
    """Half scale; 32 low bytes of numbers; 32 bytes of signs; two high bits of each number; nibbles of scales."""
    numbers = blocks[..., 2:34] + 256 * _bits(blocks[..., 66:74], 2)  # [..., 32]
    codes = codewords_of(IQ2_S_BOOK)[numbers] * _signs(blocks[..., 34:66])
    return Parts(_columns(blocks, codes), half(blocks, 0) * _EIGHTH, _odd(blocks[..., 74:]))


def _iq3xxs(blocks: Bytes) -> Parts:
    """Half scale; 64 numbers of codewords of 4; of each 32 columns a u32 of four sevens of signs and a scale."""
    signs, scales = _sevens_and_scale(blocks[..., 66:].reshape(*blocks.shape[:-1], 8, 4))
    codes = _columns(blocks, codewords_of(IQ3_XXS_BOOK)[blocks[..., 2:66]])
    return Parts(codes * _columns(blocks, signs), half(blocks, 0) * _QUARTER, scales)


def _iq3s(blocks: Bytes) -> Parts:
    """Half scale; 64 low bytes of numbers; a high bit of each; 32 bytes of signs; nibbles of scales of 32 columns."""
    numbers = blocks[..., 2:66] + 256 * _bits(blocks[..., 66:74], 1)  # [..., 64]
    codes = _columns(blocks, codewords_of(IQ3_S_BOOK)[numbers])
    signs = _columns(blocks, _signs(blocks[..., 74:106]))
    return Parts(codes * signs, half(blocks, 0), _odd(blocks[..., 106:]))


def _iq1s(blocks: Bytes) -> Parts:
    """Half scale; 32 low bytes of numbers; of each 32 columns a u16: 4 x 3 high bits, 3 of scale, the shift's sign."""
    high = _u16(blocks, 34, 50)  # [..., 8]
    numbers = blocks[..., 2:34] + 256 * _threes(high)
    shifts = np.repeat(np.where(high & 0x8000, -1, 1), 4, axis=-1)
    return Parts(_shifted(blocks, numbers, shifts), half(blocks, 0) * _EIGHTH, 2 * (high >> 12 & 7) + 1)


def _iq1m(blocks: Bytes) -> Parts:
    """32 low bytes of numbers; a nibble of each: 3 high bits, the shift's sign; 4 u16 of 4 scales and a nibble of d."""
    high = _bits(blocks[..., 32:48], 4)  # [..., 32]
    packed = _u16(blocks, 48, 56)  # [..., 4]
    d = (packed >> 12 << np.arange(0, 16, 4)).sum(-1, keepdims=True).astype(np.uint16).view(np.float16)
    codes = _shifted(blocks, blocks[..., :32] + 256 * (high & 7), np.where(high & 8, -1, 1))
    return Parts(codes, d.astype(np.float32) * _EIGHTH, 2 * _threes(packed) + 1)


def _columns(blocks: Bytes, codes: Signed) -> Signed:
    """Codes of runs or words as those of the blocks' columns."""
    return codes.reshape(*blocks.shape[:-1], -1)


def _levels(levels: tuple[int, ...], packed: Bytes) -> Signed:
    found: Signed = np.array(levels, np.int8)[nibbles(packed)]
    return found


def _u16(blocks: Bytes, start: int, stop: int) -> Numbers:
    return np.ascontiguousarray(blocks[..., start:stop]).view("<u2").astype(np.int64)


def _bits(data: Bytes, width: int) -> Numbers:
    """The fields of `width` bits of every byte, lowest first, byte after byte: [..., n] -> [..., 8 / width * n]."""
    fields = data[..., None].astype(np.int64) >> np.arange(0, 8, width) & (1 << width) - 1
    return fields.reshape(*data.shape[:-1], -1)


def _threes(packed: Numbers) -> Numbers:
    """Four fields of 3 bits of every number: [..., n] -> [..., 4n]."""
    return (packed[..., None] >> np.arange(0, 12, 3) & 7).reshape(*packed.shape[:-1], -1)


def _odd(packed: Bytes) -> Numbers:
    """2s + 1 of scales s in nibbles."""
    return 2 * _bits(packed, 4) + 1


def _signs(packed: NDArray[Any]) -> Signed:
    """1, or -1 where the bit is set, lowest first: [..., n] -> [..., n, 8]."""
    return (1 - 2 * (packed[..., None] >> np.arange(8) & 1)).astype(np.int8)


def with_eighth_sign(sevens: Numbers) -> Numbers:
    """Seven bits become eight, of which an even number is set."""
    parity = sevens ^ sevens >> 4
    parity ^= parity >> 2
    return sevens | ((parity ^ parity >> 1) & 1) << 7


def _sevens_and_scale(packed: Bytes) -> tuple[Signed, Numbers]:
    """u32 as bytes [..., 8, 4] -> four times seven signs [..., 8, 4, 8], and 2s + 1 of the scale s above [..., 8]."""
    word = np.ascontiguousarray(packed).view("<u4").astype(np.int64)  # [..., 8, 1]
    return _signs(with_eighth_sign(word >> np.arange(0, 28, 7) & 127)), 2 * (word[..., 0] >> 28) + 1


def _shifted(blocks: Bytes, numbers: Numbers, shifts: Numbers) -> Signed:
    """8 * level + shift, which belongs to a word: [..., 32] -> [..., 256]. Scales are eighths."""
    return _columns(blocks, codewords_of(IQ1_BOOK)[numbers] * np.int8(8) + shifts[..., None].astype(np.int8))


PARTS: dict[FloatType, Callable[[Bytes], Parts]] = {
    FloatType.IQ2XXS: _iq2xxs,
    FloatType.IQ2XS: _iq2xs,
    FloatType.IQ2S: _iq2s,
    FloatType.IQ3XXS: _iq3xxs,
    FloatType.IQ3S: _iq3s,
    FloatType.IQ1S: _iq1s,
    FloatType.IQ1M: _iq1m,
    FloatType.IQ4NL: _iq4nl,
    FloatType.IQ4XS: _iq4xs,
    FloatType.MXFP4: _mxfp4,
}
"""By type: file blocks uint8 [..., block_bytes] -> their parts."""
