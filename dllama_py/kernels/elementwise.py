"""Kernels over rows: norms, quantising, the gated hidden layer, the local part of the reduction tree, additions.

Work is counted in items of (row, block of 32 columns), so that one row is shared by the threads as well as many.
Strides are bytes between rows. Every kernel's first word is the address of the number of rows of the step.
"""

import numpy as np

from dllama_py.kernels.elementary import inverse_rms, normalized, quantize_block, silu, store_rounded
from dllama_py.kernels.layout import X_BLOCK_BYTES
from dllama_py.kernels.program import argument, kernel, share
from dllama_py.kernels.vectors import add_f32, get_f32, get_i64, load_f32, mul_f32, store_f32

BLOCK_BYTES = 128  # of 32 floats
NO_ROW = -1


@kernel
def norm(args: int, thread: int, threads: int) -> None:
    """rms norm of rows x[x_rows[i]], kept as floats and quantised.

    Words: n_rows, x, x_stride, x_rows (int64 list), weight, n_blocks, epsilon (address of a float),
    out_f32 (0: not wanted) [n_rows, n_blocks * 32], out_q (0: not wanted) [n_rows, n_blocks] blocks of 48 bytes.
    """
    n_blocks, epsilon = argument(args, 5), get_f32(argument(args, 6))
    out_f32, out_q = argument(args, 7), argument(args, 8)
    first, end = share(get_i64(argument(args, 0)) * n_blocks, thread, threads)
    current, x, inverse = NO_ROW, 0, np.float32(0)
    for item in range(first, end):
        row, block = item // n_blocks, item % n_blocks
        if row != current:
            current = row
            x = argument(args, 1) + argument(args, 2) * get_i64(argument(args, 3) + 8 * row)
            inverse = inverse_rms(x, n_blocks * 32, epsilon)
        at = block * BLOCK_BYTES
        a = normalized(x + at, argument(args, 4) + at, inverse)
        b = normalized(x + at + 64, argument(args, 4) + at + 64, inverse)
        if out_f32 != 0:
            store_f32(out_f32 + item * BLOCK_BYTES, a)
            store_f32(out_f32 + item * BLOCK_BYTES + 64, b)
        if out_q != 0:
            quantize_block(a, b, out_q + item * X_BLOCK_BYTES)


@kernel
def quantize(args: int, thread: int, threads: int) -> None:
    """Words: n_rows, x float32 [n_rows, stride], stride, n_blocks, out_q [n_rows, n_blocks] blocks of 48 bytes."""
    n_blocks = argument(args, 3)
    first, end = share(get_i64(argument(args, 0)) * n_blocks, thread, threads)
    for item in range(first, end):
        x = argument(args, 1) + item // n_blocks * argument(args, 2) + item % n_blocks * BLOCK_BYTES
        quantize_block(load_f32(x), load_f32(x + 64), argument(args, 4) + item * X_BLOCK_BYTES)


@kernel
def gated_hidden(args: int, thread: int, threads: int) -> None:
    """silu(gate) * up, as floats or quantised.

    Words: n_rows, gate, up float32, stride of both, n_blocks, out_f32 (0: not wanted), out_q (0: not wanted).
    """
    n_blocks, out_f32, out_q = argument(args, 4), argument(args, 5), argument(args, 6)
    first, end = share(get_i64(argument(args, 0)) * n_blocks, thread, threads)
    for item in range(first, end):
        at = item // n_blocks * argument(args, 3) + item % n_blocks * BLOCK_BYTES
        gate, up = argument(args, 1) + at, argument(args, 2) + at
        a = mul_f32(silu(load_f32(gate)), load_f32(up))
        b = mul_f32(silu(load_f32(gate + 64)), load_f32(up + 64))
        if out_f32 != 0:
            store_f32(out_f32 + item * BLOCK_BYTES, a)
            store_f32(out_f32 + item * BLOCK_BYTES + 64, b)
        if out_q != 0:
            quantize_block(a, b, out_q + item * X_BLOCK_BYTES)


@kernel
def tree_sum(args: int, thread: int, threads: int) -> None:
    """Adds a rank's leaves, neighbours first; every leaf and every sum is rounded to the exchange format.

    Words: n_rows, leaves float32 [n_leaves, rows, n_blocks * 32] (overwritten), leaf_stride, n_leaves (a power of
    two), n_blocks, rounding (elementary.KEEP_F32 ...), out float32 [n_rows, n_blocks * 32].
    """
    n_blocks, rounding, n_leaves = argument(args, 4), argument(args, 5), argument(args, 3)
    leaf_stride = argument(args, 2)
    first, end = share(get_i64(argument(args, 0)) * n_blocks, thread, threads)
    for item in range(first, end):
        at = argument(args, 1) + item * BLOCK_BYTES
        for leaf in range(n_leaves):
            x = at + leaf * leaf_stride
            store_rounded(load_f32(x), load_f32(x + 64), rounding, x)
        distance = 1
        while distance < n_leaves:
            for leaf in range(0, n_leaves, 2 * distance):
                x, y = at + leaf * leaf_stride, at + (leaf + distance) * leaf_stride
                a, b = add_f32(load_f32(x), load_f32(y)), add_f32(load_f32(x + 64), load_f32(y + 64))
                store_rounded(a, b, rounding, x)
            distance *= 2
        out = argument(args, 6) + item * BLOCK_BYTES
        store_f32(out, load_f32(at))
        store_f32(out + 64, load_f32(at + 64))


@kernel
def add(args: int, thread: int, threads: int) -> None:
    """x = x + y. Words: n_rows, x, y float32 [n_rows, n_blocks * 32], n_blocks."""
    first, end = share(get_i64(argument(args, 0)) * argument(args, 3), thread, threads)
    for item in range(first, end):
        x, y = argument(args, 1) + item * BLOCK_BYTES, argument(args, 2) + item * BLOCK_BYTES
        store_f32(x, add_f32(load_f32(x), load_f32(y)))
        store_f32(x + 64, add_f32(load_f32(x + 64), load_f32(y + 64)))
