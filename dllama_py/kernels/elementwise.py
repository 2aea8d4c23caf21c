"""Kernels over rows: norms, quantising, the gated hidden layer, the local part of the reduction tree, additions.

Norms and quantising share the items (row, block of 32 columns). The others share the columns as products do
(program.share_groups), so that what a thread reads of a product it has itself written, and no barrier is needed.
Rows are float32 unless said otherwise; B is a row's number of blocks.
"""

from typing import Any

from dllama_py.kernels.elementary import (
    KEEP_F32,
    clamped_swiglu,
    gelu_gated,
    inverse_rms,
    normalized,
    quantize_block,
    silu_gated,
    store_rounded,
)
from dllama_py.kernels.layout import F32_BLOCK_BYTES, X_BLOCK_BYTES
from dllama_py.kernels.program import argument, kernel, part_of_row, rows_touched, share
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.vectors import add_f32, get_f32, get_i64, load_f32, store_f32
from dllama_py.kernels.words import Words


@njit(forceinline=True)
def keep(a: Any, b: Any, item: int, out_f32: int, out_q: int) -> None:
    """A block of 32 results (lanes of a, then of b) as floats, quantised, or both; an address of 0: not wanted."""
    if out_f32 != 0:
        store_f32(out_f32 + item * F32_BLOCK_BYTES, a)
        store_f32(out_f32 + item * F32_BLOCK_BYTES + 64, b)
    if out_q != 0:
        quantize_block(a, b, out_q + item * X_BLOCK_BYTES)


class Norm(Words):
    N_ROWS = "int64 [1], rows of the step"
    X = "float32 [*, B * 32]"
    X_STRIDE = "bytes from row to row"
    X_ROWS = "int64 [n_rows], the rows of x to take"
    WEIGHT = "float32 [B * 32]"
    N_BLOCKS = "B"
    EPSILON = "float32 [1]"
    OUT_F32 = "float32 [n_rows, B * 32], or left out"
    OUT_Q = "uint8 [n_rows, B * 48], quantised, or left out"


@kernel(Norm, Norm.OUT_F32, Norm.OUT_Q)
def norm(args: int, thread: int, threads: int) -> None:
    """rms norm of rows x[x_rows[i]], kept as floats, quantised, or both."""
    n_blocks, epsilon = argument(args, Norm.N_BLOCKS), get_f32(argument(args, Norm.EPSILON))
    first, end = share(get_i64(argument(args, Norm.N_ROWS)) * n_blocks, thread, threads)
    start, stop = rows_touched(first, end, n_blocks)
    for row in range(start, stop):
        x_row = get_i64(argument(args, Norm.X_ROWS) + 8 * row)
        x = argument(args, Norm.X) + argument(args, Norm.X_STRIDE) * x_row
        inverse = inverse_rms(x, n_blocks * 32, epsilon)
        start_block, stop_block = part_of_row(row, first, end, n_blocks)
        for block in range(start_block, stop_block):
            at, weight = x + block * F32_BLOCK_BYTES, argument(args, Norm.WEIGHT) + block * F32_BLOCK_BYTES
            a, b = normalized(at, weight, inverse), normalized(at + 64, weight + 64, inverse)
            keep(a, b, row * n_blocks + block, argument(args, Norm.OUT_F32), argument(args, Norm.OUT_Q))


class Quantize(Words):
    N_ROWS = "int64 [1], rows of the step"
    X = "float32 [n_rows, B * 32]"
    X_STRIDE = "bytes from row to row"
    N_BLOCKS = "B"
    OUT_Q = "uint8 [n_rows, B * 48], blocks as in layout.py"


@kernel(Quantize)
def quantize(args: int, thread: int, threads: int) -> None:
    """Activations as the products of quantised weights want them."""
    n_blocks = argument(args, Quantize.N_BLOCKS)
    first, end = share(get_i64(argument(args, Quantize.N_ROWS)) * n_blocks, thread, threads)
    start, stop = rows_touched(first, end, n_blocks)
    for row in range(start, stop):
        x = argument(args, Quantize.X) + row * argument(args, Quantize.X_STRIDE)
        out = argument(args, Quantize.OUT_Q) + row * n_blocks * X_BLOCK_BYTES
        start_block, stop_block = part_of_row(row, first, end, n_blocks)
        for block in range(start_block, stop_block):
            at = x + block * F32_BLOCK_BYTES
            quantize_block(load_f32(at), load_f32(at + 64), out + block * X_BLOCK_BYTES)


class GatedHidden(Words):
    N_ROWS = "int64 [1], rows of the step"
    GATE = "float32 [n_rows, B * 32]"
    UP = "float32 [n_rows, B * 32]"
    STRIDE = "bytes from row to row of both"
    N_BLOCKS = "B"
    OUT_F32 = "float32 [n_rows, B * 32], or left out"
    OUT_Q = "uint8 [n_rows, B * 48], quantised, or left out"


@kernel(GatedHidden, GatedHidden.OUT_F32, GatedHidden.OUT_Q)
def gated_hidden(args: int, thread: int, threads: int) -> None:
    """silu(gate) * up, kept as floats, quantised, or both."""
    walk_hidden(silu_gated, args, thread, threads)


@kernel(GatedHidden, GatedHidden.OUT_F32, GatedHidden.OUT_Q)
def gelu_hidden(args: int, thread: int, threads: int) -> None:
    """gelu(gate) * up, as gated_hidden."""
    walk_hidden(gelu_gated, args, thread, threads)


@kernel(GatedHidden, GatedHidden.OUT_F32, GatedHidden.OUT_Q)
def clamped_hidden(args: int, thread: int, threads: int) -> None:
    """The clamped swiglu of gpt-oss, as gated_hidden."""
    walk_hidden(clamped_swiglu, args, thread, threads)


@njit(error_model="numpy", inline="always")
def walk_hidden(gated: Any, args: int, thread: int, threads: int) -> None:
    """This thread's columns of all rows; `gated` makes 16 lanes of gate and up one."""
    n_blocks = argument(args, GatedHidden.N_BLOCKS)
    first, end = share(n_blocks, thread, threads)
    for row in range(get_i64(argument(args, GatedHidden.N_ROWS))):
        for block in range(first, end):
            at = row * argument(args, GatedHidden.STRIDE) + block * F32_BLOCK_BYTES
            gate, up = argument(args, GatedHidden.GATE) + at, argument(args, GatedHidden.UP) + at
            a, b = gated(load_f32(gate), load_f32(up)), gated(load_f32(gate + 64), load_f32(up + 64))
            keep(a, b, row * n_blocks + block, argument(args, GatedHidden.OUT_F32), argument(args, GatedHidden.OUT_Q))


class TreeSum(Words):
    N_ROWS = "int64 [1], rows of the step"
    LEAVES = "float32 [n_leaves, *, B * 32], overwritten"
    LEAF_STRIDE = "bytes from leaf to leaf"
    N_LEAVES = "a power of two"
    N_BLOCKS = "B"
    ROUNDING = "elementary.KEEP_F32, ROUND_BF16 or ROUND_Q80"
    OUT = "float32 [n_rows, B * 32]"


@kernel(TreeSum)
def tree_sum(args: int, thread: int, threads: int) -> None:
    """Adds a rank's leaves, neighbours first; every leaf and every sum is rounded to the exchange format."""
    n_blocks, out = argument(args, TreeSum.N_BLOCKS), argument(args, TreeSum.OUT)
    first, end = share(n_blocks, thread, threads)
    for row in range(get_i64(argument(args, TreeSum.N_ROWS))):
        for item in range(row * n_blocks + first, row * n_blocks + end):
            at = argument(args, TreeSum.LEAVES) + item * F32_BLOCK_BYTES
            add_leaves(args, at)
            keep(load_f32(at), load_f32(at + 64), item, out, 0)


@njit(forceinline=True)
def add_leaves(args: int, at: int) -> None:
    """A block's sum to the place of its first leaf."""
    rounding, n_leaves = argument(args, TreeSum.ROUNDING), argument(args, TreeSum.N_LEAVES)
    leaf_stride = argument(args, TreeSum.LEAF_STRIDE)
    for leaf in range(n_leaves if rounding != KEEP_F32 else 0):
        x = at + leaf * leaf_stride
        store_rounded(load_f32(x), load_f32(x + 64), rounding, x)
    distance = 1
    while distance < n_leaves:
        for leaf in range(0, n_leaves, 2 * distance):
            x, y = at + leaf * leaf_stride, at + (leaf + distance) * leaf_stride
            a, b = add_f32(load_f32(x), load_f32(y)), add_f32(load_f32(x + 64), load_f32(y + 64))
            store_rounded(a, b, rounding, x)
        distance *= 2


class Add(Words):
    N_ROWS = "int64 [1], rows of the step"
    X = "float32 [n_rows, B * 32], overwritten"
    Y = "float32 [n_rows, B * 32]"
    N_BLOCKS = "B"


@kernel(Add)
def add(args: int, thread: int, threads: int) -> None:
    """x = x + y."""
    n_blocks = argument(args, Add.N_BLOCKS)
    first, end = share(n_blocks, thread, threads)
    for row in range(get_i64(argument(args, Add.N_ROWS))):
        for item in range(row * n_blocks + first, row * n_blocks + end):
            x, y = argument(args, Add.X) + item * F32_BLOCK_BYTES, argument(args, Add.Y) + item * F32_BLOCK_BYTES
            store_f32(x, add_f32(load_f32(x), load_f32(y)))
            store_f32(x + 64, add_f32(load_f32(x + 64), load_f32(y + 64)))


class AddNormed(Words):
    N_ROWS = "int64 [1], rows of the step"
    X = "float32 [n_rows, B * 32], overwritten"
    Y = "float32 [n_rows, B * 32]"
    WEIGHT = "float32 [B * 32]"
    N_BLOCKS = "B"
    EPSILON = "float32 [1]"


@kernel(AddNormed)
def add_normed(args: int, thread: int, threads: int) -> None:
    """x = x + rms norm of y."""
    n_blocks, epsilon = argument(args, AddNormed.N_BLOCKS), get_f32(argument(args, AddNormed.EPSILON))
    first, end = share(get_i64(argument(args, AddNormed.N_ROWS)) * n_blocks, thread, threads)
    start, stop = rows_touched(first, end, n_blocks)
    for row in range(start, stop):
        offset = row * n_blocks * F32_BLOCK_BYTES
        x, y = argument(args, AddNormed.X) + offset, argument(args, AddNormed.Y) + offset
        inverse = inverse_rms(y, n_blocks * 32, epsilon)
        start_block, stop_block = part_of_row(row, first, end, n_blocks)
        for at in range(start_block * F32_BLOCK_BYTES, stop_block * F32_BLOCK_BYTES, 64):
            normed = normalized(y + at, argument(args, AddNormed.WEIGHT) + at, inverse)
            store_f32(x + at, add_f32(load_f32(x + at), normed))
