"""Rows of activations to the bytes of a message between two stages, and back (docs/wire.md).

A message's place in memory changes from step to step, so the kernels are told where to read it. What is not finite
never arrives as an ordinary number: f32 and bf16 keep it, in the others the whole block or row becomes NaN.
"""

from typing import Any

import numpy as np

from dllama_py.activations import ROW_SCALE_BYTES, ActivationType
from dllama_py.float_types import BLOCK
from dllama_py.kernels.elementary import KEEP_F32, LARGEST, ROUND_BF16, ROUND_Q80, block_scale, codes_of, scale_of
from dllama_py.kernels.exchange import BF16_BYTES, Q80_BYTES, received_half, store_q80
from dllama_py.kernels.layout import F32_BLOCK_BYTES
from dllama_py.kernels.program import argument, kernel, part_of_row, rows_touched, share
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.vectors import (
    get_f32,
    get_i64,
    largest_magnitude,
    load_f32,
    load_i8,
    mul_f32,
    set_f32,
    splat_f32,
    store_bf16,
    store_f32,
    store_i8,
    to_f32,
    to_i32,
)
from dllama_py.kernels.words import Words

SCALE_A_ROW = 3
CODINGS = {  # the words that the kernels are given
    ActivationType.F32: KEEP_F32,
    ActivationType.BF16: ROUND_BF16,
    ActivationType.INT8: ROUND_Q80,
    ActivationType.INT8_ROW: SCALE_A_ROW,
}
NOT_A_NUMBER = np.float32(np.nan)


class Hop(Words):
    """Of both kernels."""

    N_ROWS = "int64 [1], rows of the message"
    N_BLOCKS = "of a row"
    VALUES = "float32 [n_rows, n_blocks * 32]"
    PLACE = "int64 [1], address of the rows in the message: uint8 [n_rows, row bytes]"
    CODING = "one of CODINGS"


@njit(forceinline=True)
def finite(scale: float) -> Any:
    """The scale, NaN where it is infinite."""
    return scale if scale <= LARGEST else NOT_A_NUMBER


@njit(error_model="numpy")
def row_scale(x: int, n_blocks: int) -> Any:
    """amax / 127 of a row, by the rule of a block's scale; NaN where a value is not finite."""
    largest = np.float32(0)
    for block in range(n_blocks):
        at = x + F32_BLOCK_BYTES * block
        magnitude = largest_magnitude(load_f32(at), load_f32(at + 64))
        if magnitude > largest or magnitude != magnitude:  # a NaN stays: nothing is larger
            largest = magnitude
    return finite(scale_of(largest))


@njit(forceinline=True)
def put_block(x: int, at: int, coding: int) -> None:
    """32 values to the bytes of a block."""
    a, b = load_f32(x), load_f32(x + 64)
    if coding == ROUND_Q80:
        store_q80(at, a, b, finite(block_scale(a, b)))
    elif coding == ROUND_BF16:
        store_bf16(at, a)
        store_bf16(at + 32, b)
    else:
        store_f32(at, a)
        store_f32(at + 64, b)


@njit(forceinline=True)
def block_bytes(coding: int) -> Any:
    """Of 32 values in a message, without the scale of a row."""
    if coding == ROUND_Q80:
        return Q80_BYTES
    if coding == ROUND_BF16:
        return BF16_BYTES
    return F32_BLOCK_BYTES if coding == KEEP_F32 else BLOCK


@njit(error_model="numpy")
def put_codes(x: int, row: int, n_blocks: int, first: int, end: int) -> None:
    """Blocks [first, end) of a row that has one scale; whoever has the first block writes it."""
    scale = row_scale(x, n_blocks)
    if first == 0:
        set_f32(row, scale)
    for block in range(first, end):
        at, values = row + ROW_SCALE_BYTES + BLOCK * block, x + F32_BLOCK_BYTES * block
        store_i8(at, to_i32(codes_of(load_f32(values), scale)))
        store_i8(at + 16, to_i32(codes_of(load_f32(values + 64), scale)))


@njit(error_model="numpy")
def take_codes(x: int, row: int, first: int, end: int) -> None:
    """The way back."""
    scale = splat_f32(get_f32(row))
    for block in range(first, end):
        at, values = row + ROW_SCALE_BYTES + BLOCK * block, x + F32_BLOCK_BYTES * block
        store_f32(values, mul_f32(scale, to_f32(load_i8(at))))
        store_f32(values + 64, mul_f32(scale, to_f32(load_i8(at + 16))))


@njit(forceinline=True)
def place_of(args: int, row: int) -> tuple[Any, Any, Any]:
    """-> coding, the address of a row's values, and that of its bytes in the message."""
    coding, n_blocks = argument(args, Hop.CODING), argument(args, Hop.N_BLOCKS)
    row_bytes = n_blocks * block_bytes(coding) + (ROW_SCALE_BYTES if coding == SCALE_A_ROW else 0)
    values = argument(args, Hop.VALUES) + row * n_blocks * F32_BLOCK_BYTES
    return coding, values, get_i64(argument(args, Hop.PLACE)) + row * row_bytes


@kernel(Hop)
def encode_rows(args: int, thread: int, threads: int) -> None:
    """Values to the message."""
    n_blocks = argument(args, Hop.N_BLOCKS)
    first, end = share(get_i64(argument(args, Hop.N_ROWS)) * n_blocks, thread, threads)
    start, stop = rows_touched(first, end, n_blocks)
    for row in range(start, stop):
        coding, x, at = place_of(args, row)
        low, high = part_of_row(row, first, end, n_blocks)
        if coding == SCALE_A_ROW:
            put_codes(x, at, n_blocks, low, high)
        else:
            for block in range(low, high):
                put_block(x + F32_BLOCK_BYTES * block, at + block_bytes(coding) * block, coding)


@kernel(Hop)
def decode_rows(args: int, thread: int, threads: int) -> None:
    """The message to values."""
    n_blocks = argument(args, Hop.N_BLOCKS)
    first, end = share(get_i64(argument(args, Hop.N_ROWS)) * n_blocks, thread, threads)
    start, stop = rows_touched(first, end, n_blocks)
    for row in range(start, stop):
        coding, x, at = place_of(args, row)
        low, high = part_of_row(row, first, end, n_blocks)
        if coding == SCALE_A_ROW:
            take_codes(x, at, low, high)
        else:
            for block in range(low, high):
                store_f32(x + F32_BLOCK_BYTES * block, received_half(at, block, 0, coding))
                store_f32(x + F32_BLOCK_BYTES * block + 64, received_half(at, block, 1, coding))
