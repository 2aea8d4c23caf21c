"""Blocks of codebook types as the fields that kernels want; see rearrange.py.

Seven signs become eight, for which there is a byte; scales of 4 bits go into the header, lowest first from the block on
that stands behind it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dllama_py.float_types import FloatType
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.vectors import get_i16, get_i32, get_i64, get_u8, set_i16, set_i32, set_u8


@njit(forceinline=True)
def copy_word(source: int, out: int) -> None:
    set_i32(out, get_i32(source))


@njit(forceinline=True)
def signs_of_sevens(packed: int) -> int:
    """Four sevens of signs, from the lowest bits on -> 32 bits, of whose bytes an even number of bits is set."""
    return (
        signs_of(packed & 127)
        | signs_of(packed >> 7 & 127) << 8
        | signs_of(packed >> 14 & 127) << 16
        | signs_of(packed >> 21 & 127) << 24
    )


@njit(forceinline=True)
def signs_of(seven: int) -> int:
    parity = seven ^ seven >> 4
    parity ^= parity >> 2
    return seven | ((parity ^ parity >> 1) & 1) << 7


@njit(forceinline=True)
def write_signs_of_eights(signs: int, out: int) -> None:
    """32 signs in order of the columns -> their places with codewords of 8 and one scale; see codewords.py."""
    placed = (signs & 0x03030303) << 2 | (signs & 0x0C0C0C0C) << 4
    set_i32(out, np.int32(placed | (signs & 0x30303030) >> 4 | (signs & 0xC0C0C0C0) >> 2))


@njit(forceinline=True)
def write_signs_of_halves(signs: int, out: int) -> None:
    """The same with codewords of 8 and scales of 16 columns."""
    low, high = signs & 0x0F0F0F0F, signs >> 4 & 0x0F0F0F0F  # columns 0..3 and 4..7 of each codeword
    low, high = low & 0x03030303 | (low & 0x0C0C0C0C) << 2, high & 0x03030303 | (high & 0x0C0C0C0C) << 2
    first, last = low & 0xFFFF | high << 16 & 0xFFFF0000, low >> 16 | high & 0xFFFF0000
    set_i32(out, np.int32(first << 2 | last))


@njit(forceinline=True)
def write_signs_of_fours(signs: int, out: int) -> None:
    """The same with codewords of 4."""
    set_i32(out, np.int32(spread_fours(signs & 0xFFFF) | spread_fours(signs >> 16 & 0xFFFF) << 2))


@njit(forceinline=True)
def spread_fours(signs: int) -> int:
    """Of 4 codewords: a byte each, bits 0, 4, 1, 5."""
    spread = (signs | signs << 8) & 0x00FF00FF
    spread = (spread | spread << 4) & 0x0F0F0F0F
    placed = spread & 0x01010101 | (spread & 0x02020202) << 3
    return placed | (spread & 0x04040404) >> 1 | (spread & 0x08080808) << 2


@njit(forceinline=True)
def write_header(half: int, nibbles: int, part: int, out: int) -> None:
    """The half at an address, and 8 nibbles from that of `part` on."""
    set_i16(out, get_i16(half))
    set_i32(out + 2, np.int32((nibbles & 0xFFFFFFFF) >> 4 * part))


def _half_at_front(kind, source, part, out):
    set_i16(out, get_i16(source))


def _iq4xs(kind, source, part, out):
    low, high = get_u8(source + 4 + part // 2) >> 4 * (part % 2) & 15, get_i16(source + 2) >> 2 * part & 3
    set_u8(out, np.uint8((low | high << 4) - 32))
    for i in range(0, 16, 4):
        copy_word(source + 8 + 16 * part + i, out + 1 + i)
    return out


def _iq2xxs_header(kind, source, part, out):
    nibbles = 0
    for i in range(8):
        nibbles |= (get_u8(source + 9 + 8 * i) >> 4) << 4 * i
    write_header(source, nibbles, part, out)


def _iq2xxs(kind, source, part, out):
    copy_word(source + 2 + 8 * part, out)
    write_signs_of_eights(signs_of_sevens(get_i32(source + 6 + 8 * part)), out + 4)
    return out


def _iq2xs_header(kind, source, part, out):
    """The nibbles are the ninth bits of 4 numbers."""
    nibbles = 0
    for i in range(32):
        nibbles |= (get_u8(source + 3 + 2 * i) & 1) << i
    write_header(source, nibbles, part, out)


def _iq2xs(kind, source, part, out):
    set_u8(out, get_u8(source + 66 + part))
    signs = 0
    for i in range(4):
        packed = source + 2 + 8 * part + 2 * i
        set_u8(out + 1 + i, get_u8(packed))
        signs |= signs_of(get_u8(packed + 1) >> 1) << 8 * i
    write_signs_of_halves(signs, out + 5)
    return out


def _iq2s(kind, source, part, out):
    copy_word(source + 2 + 4 * part, out)
    copy_word(source + 34 + 4 * part, out + 4)
    set_u8(out + 8, get_u8(source + 74 + part))
    set_u8(out + 9, get_u8(source + 66 + part))
    return out


def _iq3xxs_header(kind, source, part, out):
    nibbles = 0
    for i in range(8):
        nibbles |= (get_u8(source + 69 + 4 * i) >> 4) << 4 * i
    write_header(source, nibbles, part, out)


def _iq3xxs(kind, source, part, out):
    copy_word(source + 2 + 8 * part, out)
    copy_word(source + 6 + 8 * part, out + 4)
    write_signs_of_fours(signs_of_sevens(get_i32(source + 66 + 4 * part)), out + 8)
    return out


def _iq3s_header(kind, source, part, out):
    write_header(source, get_i32(source + 106), part, out)


def _iq3s(kind, source, part, out):
    set_u8(out, get_u8(source + 66 + part))
    copy_word(source + 2 + 8 * part, out + 1)
    copy_word(source + 6 + 8 * part, out + 5)
    write_signs_of_fours(get_i32(source + 74 + 4 * part), out + 9)
    return out


def _iq1s_header(kind, source, part, out):
    nibbles = 0
    for i in range(8):
        nibbles |= (get_u8(source + 35 + 2 * i) >> 4 & 7) << 4 * i
    write_header(source, nibbles, part, out)


def _iq1s(kind, source, part, out):
    """4 x 3 high bits and one shift become four nibbles."""
    packed, nibbles = get_i16(source + 34 + 2 * part), 0
    for i in range(4):
        nibbles |= (packed >> 3 * i & 7 | packed >> 12 & 8) << 4 * i
    set_i16(out, np.int16(nibbles))
    copy_word(source + 2 + 4 * part, out + 2)
    return out


def _iq1m_header(kind, source, part, out):
    """A quarter of the half lies in each of four u16."""
    packed = get_i64(source + 48)
    half = 0
    for i in range(4):
        half |= (packed >> 16 * i + 12 & 15) << 4 * i
    set_i16(out, np.int16(half))


def _iq1m(kind, source, part, out):
    set_i16(out, get_i16(source + 32 + 2 * part))
    copy_word(source + 4 * part, out + 2)
    packed = get_i16(source + 48 + 2 * (part // 2)) >> 6 * (part % 2)
    set_u8(out + 6, np.uint8(packed & 7 | (packed >> 3 & 7) << 4))
    return out


RUNS: dict[int, Callable[..., Any]] = {
    FloatType.IQ4XS.ggml_type: _iq4xs,
    FloatType.IQ2XXS.ggml_type: _iq2xxs,
    FloatType.IQ2XS.ggml_type: _iq2xs,
    FloatType.IQ2S.ggml_type: _iq2s,
    FloatType.IQ3XXS.ggml_type: _iq3xxs,
    FloatType.IQ3S.ggml_type: _iq3s,
    FloatType.IQ1S.ggml_type: _iq1s,
    FloatType.IQ1M.ggml_type: _iq1m,
}
"""By ggml's type number, as run_of wants it; blocks of other types are as kernels want them."""

HEADERS: dict[int, Callable[..., Any]] = {
    FloatType.IQ4XS.ggml_type: _half_at_front,
    FloatType.IQ2XXS.ggml_type: _iq2xxs_header,
    FloatType.IQ2XS.ggml_type: _iq2xs_header,
    FloatType.IQ2S.ggml_type: _half_at_front,
    FloatType.IQ3XXS.ggml_type: _iq3xxs_header,
    FloatType.IQ3S.ggml_type: _iq3s_header,
    FloatType.IQ1S.ggml_type: _iq1s_header,
    FloatType.IQ1M.ggml_type: _iq1m_header,
}
"""As header_of wants it; `part` is the place of the first block behind the header in its super-block."""
