"""Matrix products of packed weights with rows of activations, for every weights type, one row or many.

A group of 16 outputs is one vector; every activation row walks the blocks in ascending order and ends a total at
each leaf border (docs/arithmetic.md). Tiles of 1, 4 or 8 rows share the unpacking of a weight vector; a tile that
is not full repeats its last row, which writes the same values twice. Experts are matrices that lie one behind the
other, each with a list of the rows that chose it; a dense matrix is one expert chosen by all.
"""

from functools import cache
from typing import Any

from numba import njit

from dllama_py.blocks import FloatType
from dllama_py.kernels.constants import constant, number_of
from dllama_py.kernels.memory import prefetch
from dllama_py.kernels.program import Kernel, argument, share
from dllama_py.kernels.tiles import row_addresses, rows_store, rows_weigh, rows_zero_f32
from dllama_py.kernels.vectors import get_i64, store_f32, zero_f32
from dllama_py.kernels.weight_blocks import add_block, block_bytes

GROUP_BYTES = 64  # of 16 float outputs

# Argument words of both kernels.
STARTS, X, X_STRIDE, X_ROWS, WEIGHTS, GROUPS, BLOCKS, OUT, OUT_STRIDE, OUT_ROWS = range(10)
LEAVES, N_LEAVES, LEAF_STRIDE, EXPERTS, FACTORS, N_ROWS = range(10, 16)


@cache
def matmul(kind: FloatType) -> Kernel:
    """out[leaf, out_row] = weights x x[x_row], float32.

    Words: STARTS int64 [experts + 1] borders of the experts' rows in the lists; X, X_STRIDE activations (48-byte
    blocks, float32 for float weights), bytes between rows; X_ROWS, OUT_ROWS int64 lists; WEIGHTS packed, GROUPS of
    16 outputs, BLOCKS of 32 columns; OUT, OUT_STRIDE, LEAF_STRIDE bytes; LEAVES int64 [N_LEAVES + 1] block borders.
    """
    number = kind.ggml_type

    def product(args: int, thread: int, threads: int) -> None:
        walk(constant(number), constant(0), args, thread, threads)

    return Kernel(product, f"matmul_{kind.label}")


@cache
def matmul_weighted(kind: FloatType) -> Kernel:
    """out[leaf, out_row] = fma(factor, weights x x[x_row], out) over the experts of a row, ascending, from zero.

    Words as `matmul`; FACTORS float32, one for each list entry; N_ROWS address of the number of output rows.
    """
    number = kind.ggml_type

    def product(args: int, thread: int, threads: int) -> None:
        clear(args, thread, threads)
        walk(constant(number), constant(1), args, thread, threads)

    return Kernel(product, f"matmul_weighted_{kind.label}")


@njit(error_model="numpy")
def walk(kind: Any, weighted: Any, args: int, thread: int, threads: int) -> None:
    """This thread's groups of outputs, expert by expert; `kind` and `weighted` are Constants."""
    first_group, end_group = share(argument(args, GROUPS), thread, threads)
    group_bytes = argument(args, BLOCKS) * block_bytes(kind)
    matrix = argument(args, WEIGHTS)
    for expert in range(argument(args, EXPERTS)):
        start = get_i64(argument(args, STARTS) + 8 * expert)
        end = get_i64(argument(args, STARTS) + 8 * expert + 8)
        for group in range(first_group, end_group):
            weights = matrix + group * group_bytes
            row = start
            while row < end:
                if end - row > 4:
                    tile(kind, weighted, rows_zero_f32(constant(8)), args, weights, group, row, end)
                    row += 8
                elif end - row > 1:
                    tile(kind, weighted, rows_zero_f32(constant(4)), args, weights, group, row, end)
                    row += 4
                else:
                    tile(kind, weighted, rows_zero_f32(constant(1)), args, weights, group, row, end)
                    row += 1
        matrix += argument(args, GROUPS) * group_bytes


@njit(error_model="numpy")
def tile(kind: Any, weighted: Any, zero: Any, args: int, weights: int, group: int, row: int, end: int) -> None:
    """16 outputs, all leaves, of up to as many rows of one expert as the tile `zero` is high."""
    last = end - row - 1
    x = row_addresses(zero, argument(args, X), argument(args, X_STRIDE), argument(args, X_ROWS) + 8 * row, last)
    out = row_addresses(zero, argument(args, OUT), argument(args, OUT_STRIDE), argument(args, OUT_ROWS) + 8 * row, last)
    block = 0
    for leaf in range(argument(args, N_LEAVES)):
        total = zero
        leaf_end = get_i64(argument(args, LEAVES) + 8 * leaf + 8)
        while block < leaf_end:
            at = weights + block * block_bytes(kind)
            prefetch(at, block_bytes(kind))
            total = add_block(kind, total, at, x, block)
            block += 1
        at = group * GROUP_BYTES + leaf * argument(args, LEAF_STRIDE)
        if number_of(weighted):
            rows_weigh(out, at, argument(args, FACTORS) + 4 * row, last, total)
        else:
            rows_store(out, at, total)


@njit(error_model="numpy")
def clear(args: int, thread: int, threads: int) -> None:
    """Zeroes this thread's outputs in all rows and leaves."""
    first_group, end_group = share(argument(args, GROUPS), thread, threads)
    for leaf in range(argument(args, N_LEAVES)):
        for row in range(get_i64(argument(args, N_ROWS))):
            out = argument(args, OUT) + leaf * argument(args, LEAF_STRIDE) + row * argument(args, OUT_STRIDE)
            for group in range(first_group, end_group):
                store_f32(out + group * GROUP_BYTES, zero_f32())
