"""Prefetching, copying rows, and reading memory as fast as it goes (the measure that `bench` compares with)."""

from numba import njit

from dllama_py.kernels.program import argument, kernel, share
from dllama_py.kernels.vectors import (
    get_i64,
    load_f32,
    load_i32,
    or_i32,
    prefetch_line,
    set_i32,
    store_f32,
    sum_lanes_i32,
)

AHEAD_BYTES = 8192  # found by trial: nearer gains less, further no more (docs/decisions/0004-prefetch.md)


@njit(forceinline=True)
def prefetch(address: int, n_bytes: int) -> None:
    """Before reading n bytes of a long walk through memory: asks for those that will be read 8 kB later."""
    for line in range(0, n_bytes, 64):
        prefetch_line(address + line + AHEAD_BYTES)


@kernel
def copy_rows(args: int, thread: int, threads: int) -> None:
    """out[i] = x[rows[i]]. Words: number of rows (address), x, stride of both, rows (int64 list), floats in a row, out.

    A row is a multiple of 16 floats.
    """
    first, end = share(get_i64(argument(args, 0)), thread, threads)
    stride = argument(args, 2)
    for row in range(first, end):
        x, out = argument(args, 1) + get_i64(argument(args, 3) + 8 * row) * stride, argument(args, 5) + row * stride
        for i in range(0, 4 * argument(args, 4), 64):
            store_f32(out + i, load_f32(x + i))


@kernel
def read_stream(args: int, thread: int, threads: int) -> None:
    """Reads every byte of a buffer. Words: address, bytes (a multiple of 256 * threads), out int32 [threads, 16]."""
    first, end = share(argument(args, 1) // 256, thread, threads)
    x = argument(args, 0)
    a = b = c = d = load_i32(x)
    for i in range(first, end):
        prefetch(x + 256 * i, 256)
        a, b = or_i32(a, load_i32(x + 256 * i)), or_i32(b, load_i32(x + 256 * i + 64))
        c, d = or_i32(c, load_i32(x + 256 * i + 128)), or_i32(d, load_i32(x + 256 * i + 192))
    set_i32(argument(args, 2) + 64 * thread, sum_lanes_i32(or_i32(or_i32(a, b), or_i32(c, d))))
