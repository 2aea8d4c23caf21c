"""Partial sums on the wire: encoding, and adding what came, by docs/arithmetic.md, "Sums that cross nodes".

A vector is cut in halves, the halves again, and so on, at borders between blocks of 32. A span is a piece of it:
`level` says how often the vector was cut, bit k of `path` whether the k-th cut kept the upper part.
Values that are encoded are rounded to the format already, so encoding is exact.
"""

from typing import Any

from dllama_py.blocks import BLOCK, FloatType
from dllama_py.kernels.elementary import KEEP_F32, ROUND_BF16, ROUND_Q80, block_scale, codes_of, store_rounded
from dllama_py.kernels.layout import F32_BLOCK_BYTES
from dllama_py.kernels.program import argument, kernel, share
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.vectors import (
    add_f32,
    get_i64,
    load_bf16,
    load_f32,
    load_i8,
    mul_f32,
    splat_f32,
    store_bf16,
    store_f32,
    store_i8,
    to_f32,
    to_i32,
    widen_half_at,
    write_half,
)
from dllama_py.kernels.words import Words

BF16_BYTES, Q80_BYTES = FloatType.BF16.n_bytes(BLOCK), FloatType.Q80.n_bytes(BLOCK)  # of a block of 32
WIRE_BLOCK_BYTES = {KEEP_F32: F32_BLOCK_BYTES, ROUND_BF16: BF16_BYTES, ROUND_Q80: Q80_BYTES}


@njit(error_model="numpy")
def span(n_blocks: int, level: int, path: int) -> tuple[Any, Any]:
    """The blocks [start, end) of a span of a vector of so many blocks."""
    start, end = 0, n_blocks
    for cut in range(level):
        middle = start + (end - start) // 2
        if path >> cut & 1:
            start = middle
        else:
            end = middle
    return start, end


class Coding(Words):
    """Of all kernels here."""

    N_ROWS = "int64 [1], rows of the step"
    N_BLOCKS = "of a row"
    LEVEL = "of the span"
    PATH = "of the span"
    VALUES = "float32 [n_rows, n_blocks * 32]"
    WIRE = "uint8 [n_rows * n_blocks * block bytes]"
    ROUNDING = "elementary.KEEP_F32, ROUND_BF16 or ROUND_Q80"


@njit(error_model="numpy")
def shared_blocks(args: int, thread: int, threads: int) -> tuple[Any, Any]:
    """The blocks of the span that fall to a thread."""
    n_blocks = get_i64(argument(args, Coding.N_ROWS)) * argument(args, Coding.N_BLOCKS)
    start, stop = span(n_blocks, argument(args, Coding.LEVEL), argument(args, Coding.PATH))
    first, end = share(stop - start, thread, threads)
    return start + first, start + end


@njit(forceinline=True)
def store_q80(at: int, a: Any, b: Any, scale: float) -> None:
    """The 34 bytes of a block of the wire: the scale as a half, 32 codes."""
    write_half(at, scale)
    store_i8(at + 2, to_i32(codes_of(a, scale)))
    store_i8(at + 18, to_i32(codes_of(b, scale)))


@kernel(Coding)
def encode(args: int, thread: int, threads: int) -> None:
    """Values to the wire, for the formats that are not float32 as it is."""
    first, end = shared_blocks(args, thread, threads)
    is_q80 = argument(args, Coding.ROUNDING) == ROUND_Q80
    for block in range(first, end):
        x = argument(args, Coding.VALUES) + F32_BLOCK_BYTES * block
        a, b = load_f32(x), load_f32(x + 64)
        if is_q80:
            store_q80(argument(args, Coding.WIRE) + Q80_BYTES * block, a, b, block_scale(a, b))
        else:
            at = argument(args, Coding.WIRE) + BF16_BYTES * block
            store_bf16(at, a)
            store_bf16(at + 32, b)


@njit(forceinline=True)
def received_half(wire: int, block: int, half: int, rounding: int) -> Any:
    """16 values of a block of the wire: its first (half 0) or its last."""
    if rounding == ROUND_Q80:
        at = wire + Q80_BYTES * block
        return mul_f32(splat_f32(widen_half_at(at)), to_f32(load_i8(at + 2 + 16 * half)))
    if rounding == ROUND_BF16:
        return load_bf16(wire + BF16_BYTES * block + 32 * half)
    return load_f32(wire + F32_BLOCK_BYTES * block + 64 * half)


@kernel(Coding)
def decode(args: int, thread: int, threads: int) -> None:
    """The wire to values."""
    first, end = shared_blocks(args, thread, threads)
    rounding, wire = argument(args, Coding.ROUNDING), argument(args, Coding.WIRE)
    for block in range(first, end):
        x = argument(args, Coding.VALUES) + F32_BLOCK_BYTES * block
        store_f32(x, received_half(wire, block, 0, rounding))
        store_f32(x + 64, received_half(wire, block, 1, rounding))


@kernel(Coding)
def add_received(args: int, thread: int, threads: int) -> None:
    """values = round(values + received); the sum of two does not depend on which of them is one's own."""
    first, end = shared_blocks(args, thread, threads)
    rounding, wire = argument(args, Coding.ROUNDING), argument(args, Coding.WIRE)
    for block in range(first, end):
        x = argument(args, Coding.VALUES) + F32_BLOCK_BYTES * block
        a = add_f32(load_f32(x), received_half(wire, block, 0, rounding))
        b = add_f32(load_f32(x + 64), received_half(wire, block, 1, rounding))
        store_rounded(a, b, rounding, x)
