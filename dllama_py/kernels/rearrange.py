"""A file's blocks as the fields that kernels want (layout.FIELDS), for one row and 32 columns at a time.

`run_of(kind, source, part, out)` gives the address of the fields of columns [32 * part, ...) of the file's block at
`source`: written to `out`, or the block itself where it has this form already. `header_of(kind, source, part, out)`
writes what a super-block has once, for its runs of 32 columns from `part` on. `kind` is a Constant. Words of 32 bits
hold four columns, so bit fields of four columns move at once.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload

from dllama_py.float_types import FloatType
from dllama_py.kernels import rearrange_codebooks
from dllama_py.kernels.subroutines import OPTIONS, njit
from dllama_py.kernels.vectors import get_i16, get_i32, get_u8, set_i16, set_i32, set_u8

_NIBBLES, _PAIRS, _ONES = 0x0F0F0F0F, 0x03030303, 0x01010101


@njit(forceinline=True)
def nibble_words(low: int, shift: int, out: int) -> None:
    """Nibbles of 32 bytes -> 4 words: of each byte the low nibble is that of byte c, the high one of byte 16 + c."""
    for i in range(0, 16, 4):
        first, last = get_i32(low + i) >> shift & _NIBBLES, get_i32(low + 16 + i) >> shift & _NIBBLES
        set_i32(out + i, np.int32(first | last << 4))


@njit(forceinline=True)
def pair_words(low: int, shift: int, out: int) -> None:
    """Pairs of bits of 32 bytes -> 2 words: bits 2j, 2j+1 of byte t are those of bytes 4j + t, then of 16 + 4j + t."""
    for half in range(2):
        word = 0
        for j in range(4):
            word |= (get_i32(low + 16 * half + 4 * j) >> shift & _PAIRS) << (2 * j)
        set_i32(out + 4 * half, np.int32(word))


@njit(forceinline=True)
def bit_word(low: int, shift: int, out: int) -> None:
    """Single bits of 32 bytes -> a word: bit j of byte t is that of byte 4j + t."""
    word = 0
    for j in range(8):
        word |= (get_i32(low + 4 * j) >> shift & _ONES) << j
    set_i32(out, np.int32(word))


@njit(forceinline=True)
def spread_bits(bits: int, out: int) -> None:
    """32 bits, that of column c in place c -> a word: bit j of byte t is that of column 4j + t."""
    word = 0
    for j in range(8):
        four = bits >> 4 * j & 15
        word |= (four * 0x00204081 & _ONES) << j  # copies at 0, 7, 14, 21: bit t of four comes to bit 8t
    set_i32(out, np.int32(word))


@njit(forceinline=True)
def copy_half(source: int, out: int) -> None:
    set_i16(out, get_i16(source))


@njit(forceinline=True)
def negate_half(source: int, out: int) -> None:
    set_i16(out, np.int16(get_i16(source) ^ -0x8000))


@njit(forceinline=True)
def six_bit_scale(packed: int, number: int) -> tuple[int, int]:
    """Scale and minimum of 32 columns, of the 12 bytes of q4_k and q5_k."""
    if number < 4:
        return get_u8(packed + number) & 63, get_u8(packed + 4 + number) & 63
    low, first, second = get_u8(packed + 4 + number), get_u8(packed + number - 4), get_u8(packed + number)
    return low & 15 | first >> 6 << 4, low >> 4 | second >> 6 << 4


@njit(forceinline=True)
def signed_six_bit_scale(packed: int, number: int) -> int:
    """Scale of 16 columns, of the 12 bytes of q3_k."""
    low = get_u8(packed + number % 8) >> 4 * (number // 8) & 15
    return (low | (get_u8(packed + 8 + number % 4) >> 2 * (number // 4) & 3) << 4) - 32


def _q50(kind, source, part, out):
    copy_half(source, out)
    for i in range(0, 16, 4):
        set_i32(out + 2 + i, get_i32(source + 6 + i))
    spread_bits(get_i32(source + 2), out + 18)
    return out


def _q51(kind, source, part, out):
    copy_half(source, out)
    copy_half(source + 2, out + 2)
    for i in range(0, 16, 4):
        set_i32(out + 4 + i, get_i32(source + 8 + i))
    spread_bits(get_i32(source + 4), out + 20)
    return out


def _q2k_header(kind, source, part, out):
    copy_half(source + 80, out)
    negate_half(source + 82, out + 2)


def _q2k(kind, source, part, out):
    copy_half(source + 2 * part, out)  # two bytes
    pair_words(source + 16 + 32 * (part // 4), 2 * (part % 4), out + 2)
    return out


def _q3k_header(kind, source, part, out):
    copy_half(source + 108, out)


def _q3k(kind, source, part, out):
    set_u8(out, np.uint8(signed_six_bit_scale(source + 96, 2 * part)))
    set_u8(out + 1, np.uint8(signed_six_bit_scale(source + 96, 2 * part + 1)))
    pair_words(source + 32 + 32 * (part // 4), 2 * (part % 4), out + 2)
    bit_word(source, part, out + 10)
    return out


def _q4k_header(kind, source, part, out):
    copy_half(source, out)
    negate_half(source + 2, out + 2)


def _q4k(kind, source, part, out):
    scale, minimum = six_bit_scale(source + 4, part)
    set_u8(out, np.uint8(scale))
    set_u8(out + 1, np.uint8(minimum))
    nibble_words(source + 16 + 32 * (part // 2), 4 * (part % 2), out + 2)
    return out


def _q5k(kind, source, part, out):
    scale, minimum = six_bit_scale(source + 4, part)
    set_u8(out, np.uint8(scale))
    set_u8(out + 1, np.uint8(minimum))
    nibble_words(source + 48 + 32 * (part // 2), 4 * (part % 2), out + 2)
    bit_word(source + 16, part, out + 18)
    return out


def _q6k_header(kind, source, part, out):
    copy_half(source + 208, out)


def _q6k(kind, source, part, out):
    copy_half(source + 192 + 2 * part, out)  # two bytes
    nibble_words(source + 64 * (part // 4) + 32 * (part % 2), 4 * (part % 4 // 2), out + 2)
    pair_words(source + 128 + 32 * (part // 4), 2 * (part % 4), out + 18)
    return out


def _itself(kind, source, part, out):
    return source


def _nothing(kind, source, part, out):
    return


_RUNS: dict[int, Callable[..., Any]] = {
    FloatType.Q50.ggml_type: _q50,
    FloatType.Q51.ggml_type: _q51,
    FloatType.Q2K.ggml_type: _q2k,
    FloatType.Q3K.ggml_type: _q3k,
    FloatType.Q4K.ggml_type: _q4k,
    FloatType.Q5K.ggml_type: _q5k,
    FloatType.Q6K.ggml_type: _q6k,
} | rearrange_codebooks.RUNS
_HEADERS: dict[int, Callable[..., Any]] = {
    FloatType.Q2K.ggml_type: _q2k_header,
    FloatType.Q3K.ggml_type: _q3k_header,
    FloatType.Q4K.ggml_type: _q4k_header,
    FloatType.Q5K.ggml_type: _q4k_header,
    FloatType.Q6K.ggml_type: _q6k_header,
} | rearrange_codebooks.HEADERS


def run_of(kind, source, part, out):
    """Only inside compiled code; see the module's docstring."""
    raise RuntimeError("run_of runs in compiled code only")


@overload(run_of, jit_options={"forceinline": True} | OPTIONS)
def _choose_run(kind, source, part, out):
    return _RUNS.get(kind.number, _itself)


def header_of(kind, source, part, out):
    """Only inside compiled code; see the module's docstring."""
    raise RuntimeError("header_of runs in compiled code only")


@overload(header_of, jit_options={"forceinline": True} | OPTIONS)
def _choose_header(kind, source, part, out):
    return _HEADERS.get(kind.number, _nothing)
