"""Matrix products of packed weights with rows of activations, for every weights type, one row or many.

A group of 16 outputs is one vector; every activation row walks the blocks in ascending order and ends a total at
each leaf border (docs/arithmetic.md). Tiles of 1, 4 or 8 rows share the unpacking of a weight vector, and where that
takes long, panels of 64 rows do (panels.py); a tile that is not full repeats its last row, which writes the same values
twice. Experts are matrices that lie one behind the other, each with a list of the rows that chose it; a dense matrix is
one expert chosen by all.
"""

from functools import cache
from typing import Any

from numba.extending import overload

from dllama_py.float_types import FloatType
from dllama_py.kernels.constants import constant, number_of
from dllama_py.kernels.panel_products import panel
from dllama_py.kernels.panels import IS_DECODED
from dllama_py.kernels.prefetch import STREAMS, pattern_words, prefetch
from dllama_py.kernels.product_words import GROUP_BYTES, RUNS, TALLEST, Apart, Place, Product
from dllama_py.kernels.program import Kernel, argument, share_groups
from dllama_py.kernels.subroutines import OPTIONS, njit
from dllama_py.kernels.tiles import row_addresses, rows_store, rows_weigh, rows_zero_f32
from dllama_py.kernels.vectors import get_i64, store_f32, zero_f32
from dllama_py.kernels.weight_blocks import add_block, bytes_of_block, bytes_of_header
from dllama_py.kernels.words import Argument, Words


@cache
def matmul(kind: FloatType) -> Kernel:
    """out[leaf, out_row] = weights x x[x_row], over the columns of the leaf."""
    number = kind.ggml_type

    def product(args: int, thread: int, threads: int) -> None:
        walk(constant(number), constant(0), args, thread, threads)

    left_out: dict[Words, Argument] = {
        Product.FACTORS: 0,
        Product.N_ROWS: 0,
        Product.PATTERN: pattern_words(kind.label),
    }
    return Kernel(product, Product, left_out, name=f"matmul_{kind.label}", made_by=(matmul, kind))


@cache
def matmul_weighted(kind: FloatType) -> Kernel:
    """out[leaf, out_row] = fma(factor, weights x x[x_row], out) over the experts of a row, ascending, from zero."""
    number = kind.ggml_type

    def product(args: int, thread: int, threads: int) -> None:
        if argument(args, Product.N_ROWS) != 0:
            clear(args, thread, threads)
        walk(constant(number), constant(1), args, thread, threads)

    left_out: dict[Words, Argument] = {Product.N_ROWS: 0, Product.PATTERN: pattern_words(kind.label)}
    return Kernel(product, Product, left_out, name=f"matmul_weighted_{kind.label}", made_by=(matmul_weighted, kind))


@njit(error_model="numpy")
def walk(kind: Any, weighted: Any, args: int, thread: int, threads: int) -> None:
    """This thread's groups of outputs, expert by expert; `kind` and `weighted` are Constants."""
    first_group, end_group = share_groups(argument(args, Product.N_GROUPS), thread, threads)
    n_blocks = argument(args, Product.N_BLOCKS)
    n_headers = (argument(args, Product.PHASE) + n_blocks + RUNS - 1) // RUNS
    group_bytes = n_blocks * bytes_of_block(kind) + n_headers * bytes_of_header(kind)
    matrix = argument(args, Product.WEIGHTS)
    for expert in range(argument(args, Product.N_EXPERTS)):
        start = get_i64(argument(args, Product.STARTS) + 8 * expert)
        end = get_i64(argument(args, Product.STARTS) + 8 * expert + 8)
        group = first_group
        if end - start == 1 and get_i64(argument(args, Product.PATTERN) + 8) == STREAMS:
            n_each = (end_group - first_group) // STREAMS
            for first in range(first_group, first_group + n_each):
                place = Place(matrix + first * group_bytes, first, start, end)
                tile_of_streams(kind, weighted, rows_zero_f32(constant(1)), args, place, Apart(n_each, group_bytes))
            group += STREAMS * n_each
        while group < end_group:
            tiles(kind, weighted, args, Place(matrix + group * group_bytes, group, start, end))
            group += 1
        matrix += argument(args, Product.N_GROUPS) * group_bytes


@njit(forceinline=True, error_model="numpy")
def tiles(kind: Any, weighted: Any, args: int, place: Place) -> None:
    """16 outputs of all rows of one expert, from the place's entry on."""
    entry, end = place.entry, place.end
    while entry < end:
        at = Place(place.weights, place.group, entry, end)
        if end - entry > 1:
            entry += many_rows(kind, weighted, args, at)
        else:
            tile(kind, weighted, rows_zero_f32(constant(1)), args, at)
            entry += 1


def many_rows(kind, weighted, args, place):
    """16 outputs of as many rows as are computed best at once -> how many; only inside compiled code."""
    raise RuntimeError("many_rows runs in compiled code only")


@overload(many_rows, jit_options={"error_model": "numpy"} | OPTIONS)
def _choose_many_rows(kind, weighted, args, place):
    return panel if kind.number in IS_DECODED else tall_tile


def tall_tile(kind, weighted, args, place):
    """The weights are unpacked for every tile anew."""
    if TALLEST > 4 and place.end - place.entry > 4:
        tile(kind, weighted, rows_zero_f32(constant(8)), args, place)
        return 8
    tile(kind, weighted, rows_zero_f32(constant(4)), args, place)
    return 4


@njit(error_model="numpy")
def tile(kind: Any, weighted: Any, zero: Any, args: int, place: Place) -> None:
    """16 outputs, all leaves, of up to as many rows of one expert as the tile `zero` is high."""
    last, entry = place.end - place.entry - 1, 8 * place.entry
    x_rows, out_rows = argument(args, Product.X_ROWS) + entry, argument(args, Product.OUT_ROWS) + entry
    x = row_addresses(zero, argument(args, Product.X), argument(args, Product.X_STRIDE), x_rows, last)
    out = row_addresses(zero, argument(args, Product.OUT), argument(args, Product.OUT_STRIDE), out_rows, last)
    weights = header = place.weights
    ahead = get_i64(argument(args, Product.PATTERN))
    block, border = 0, 0 if bytes_of_header(kind) else argument(args, Product.N_BLOCKS)  # the next header's block
    for leaf in range(argument(args, Product.N_LEAVES)):
        total = zero
        leaf_end = get_i64(argument(args, Product.LEAVES) + 8 * leaf + 8)
        while block < leaf_end:
            if block == border:
                header, weights = weights, weights + bytes_of_header(kind)
                prefetch(header, bytes_of_header(kind), ahead)
                border += RUNS - (argument(args, Product.PHASE) if block == 0 else 0)
            end = min(border, leaf_end)
            while block < end:
                prefetch(weights, bytes_of_block(kind), ahead)
                total = add_block(kind, total, header, weights, x, block)
                weights += bytes_of_block(kind)
                block += 1
        finish(
            weighted,
            args,
            place,
            (out, last),
            place.group * GROUP_BYTES + leaf * argument(args, Product.LEAF_STRIDE),
            total,
        )


@njit(error_model="numpy")
def tile_of_streams(kind: Any, weighted: Any, zero: Any, args: int, place: Place, apart: Apart) -> None:
    """As `tile`, of one row and of STREAMS groups side by side.

    A CPU looks ahead in every page that is read, so that more of its memory is under way.
    """
    x_rows, out_rows = (
        argument(args, Product.X_ROWS) + 8 * place.entry,
        argument(args, Product.OUT_ROWS) + 8 * place.entry,
    )
    x = row_addresses(zero, argument(args, Product.X), argument(args, Product.X_STRIDE), x_rows, 0)
    out = row_addresses(zero, argument(args, Product.OUT), argument(args, Product.OUT_STRIDE), out_rows, 0)
    weights = header = place.weights
    far = apart.n_groups * apart.group_bytes
    ahead = get_i64(argument(args, Product.PATTERN))
    block, border = 0, 0 if bytes_of_header(kind) else argument(args, Product.N_BLOCKS)
    for leaf in range(argument(args, Product.N_LEAVES)):
        a = b = c = d = zero
        leaf_end = get_i64(argument(args, Product.LEAVES) + 8 * leaf + 8)
        while block < leaf_end:
            if block == border:
                header, weights = weights, weights + bytes_of_header(kind)
                for stream in range(STREAMS):
                    prefetch(header + stream * far, bytes_of_header(kind), ahead)
                border += RUNS - (argument(args, Product.PHASE) if block == 0 else 0)
            end = min(border, leaf_end)
            while block < end:
                for stream in range(STREAMS):
                    prefetch(weights + stream * far, bytes_of_block(kind), ahead)
                a = add_block(kind, a, header, weights, x, block)
                b = add_block(kind, b, header + far, weights + far, x, block)
                c = add_block(kind, c, header + 2 * far, weights + 2 * far, x, block)
                d = add_block(kind, d, header + 3 * far, weights + 3 * far, x, block)
                weights += bytes_of_block(kind)
                block += 1
        at, step = place.group * GROUP_BYTES + leaf * argument(args, Product.LEAF_STRIDE), apart.n_groups * GROUP_BYTES
        finish(weighted, args, place, (out, 0), at, a)
        finish(weighted, args, place, (out, 0), at + step, b)
        finish(weighted, args, place, (out, 0), at + 2 * step, c)
        finish(weighted, args, place, (out, 0), at + 3 * step, d)


@njit(forceinline=True, error_model="numpy")
def finish(weighted: Any, args: int, place: Place, rows: Any, at: int, total: Any) -> None:
    """A leaf's totals to the outputs at `at`, or weighted to what they hold. `rows`: their addresses, the last one."""
    out, last = rows
    if number_of(weighted):
        rows_weigh(out, at, argument(args, Product.FACTORS) + 4 * place.entry, last, total)
    else:
        rows_store(out, at, total)


@njit(error_model="numpy")
def clear(args: int, thread: int, threads: int) -> None:
    """Zeroes this thread's outputs in all rows and leaves."""
    first_group, end_group = share_groups(argument(args, Product.N_GROUPS), thread, threads)
    for leaf in range(argument(args, Product.N_LEAVES)):
        for row in range(get_i64(argument(args, Product.N_ROWS))):
            out = (
                argument(args, Product.OUT)
                + leaf * argument(args, Product.LEAF_STRIDE)
                + row * argument(args, Product.OUT_STRIDE)
            )
            for group in range(first_group, end_group):
                store_f32(out + group * GROUP_BYTES, zero_f32())
