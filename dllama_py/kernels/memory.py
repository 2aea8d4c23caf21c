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
from dllama_py.kernels.words import Words

AHEAD_BYTES = 8192  # found by trial: nearer gains less, further no more (docs/decisions/0004-prefetch.md)


@njit(forceinline=True)
def prefetch(address: int, n_bytes: int) -> None:
    """Before reading n bytes of a long walk through memory: asks for those that will be read 8 kB later."""
    for line in range(0, n_bytes, 64):
        prefetch_line(address + line + AHEAD_BYTES)


class CopyRows(Words):
    N_ROWS = "int64 [1], rows to copy"
    X = "float32 [*, width]"
    STRIDE = "bytes from row to row of x and out"
    X_ROWS = "int64 [n_rows], the rows of x to take"
    WIDTH = "floats to copy of each row, a multiple of 16"
    OUT = "float32 [n_rows, width]"


@kernel(CopyRows)
def copy_rows(args: int, thread: int, threads: int) -> None:
    """out[i] = x[x_rows[i]]."""
    first, end = share(get_i64(argument(args, CopyRows.N_ROWS)), thread, threads)
    stride = argument(args, CopyRows.STRIDE)
    for row in range(first, end):
        x = argument(args, CopyRows.X) + get_i64(argument(args, CopyRows.X_ROWS) + 8 * row) * stride
        out = argument(args, CopyRows.OUT) + row * stride
        for i in range(0, 4 * argument(args, CopyRows.WIDTH), 64):
            store_f32(out + i, load_f32(x + i))


class ReadStream(Words):
    X = "the memory"
    N_BYTES = "of it, a multiple of 256"
    OUT = "int32 [threads, 16]"


@kernel(ReadStream)
def read_stream(args: int, thread: int, threads: int) -> None:
    """Reads every byte of a piece of memory; the first word of each thread's row of `out` depends on what it read."""
    first, end = share(argument(args, ReadStream.N_BYTES) // 256, thread, threads)
    x = argument(args, ReadStream.X)
    a = b = c = d = load_i32(x)
    for i in range(first, end):
        prefetch(x + 256 * i, 256)
        a, b = or_i32(a, load_i32(x + 256 * i)), or_i32(b, load_i32(x + 256 * i + 64))
        c, d = or_i32(c, load_i32(x + 256 * i + 128)), or_i32(d, load_i32(x + 256 * i + 192))
    set_i32(argument(args, ReadStream.OUT) + 64 * thread, sum_lanes_i32(or_i32(or_i32(a, b), or_i32(c, d))))
