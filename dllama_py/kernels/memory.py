"""Copying rows, and reading memory as fast as it goes (the measure that `bench` compares with)."""

from typing import Any

from dllama_py.kernels.prefetch import STREAM, STREAMS, pattern_words, prefetch
from dllama_py.kernels.program import Kernel, argument, kernel, share
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.vectors import (
    get_i64,
    load_f32,
    load_i32,
    or_i32,
    set_i32,
    store_f32,
    sum_lanes_i32,
)
from dllama_py.kernels.words import Words


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
    PATTERN = "int64 [2], a ReadPattern; left out: as was found best"


@njit(forceinline=True)
def _or_256_bytes(found: Any, x: int, ahead: int) -> Any:
    """Four vectors or-ed with the next four at x."""
    prefetch(x, 256, ahead)
    a, b, c, d = found
    a, b = or_i32(a, load_i32(x)), or_i32(b, load_i32(x + 64))
    return a, b, or_i32(c, load_i32(x + 128)), or_i32(d, load_i32(x + 192))


def _read_stream(args: int, thread: int, threads: int) -> None:
    """Reads every byte of a piece of memory; the first word of each thread's row of `out` depends on what it read."""
    first, end = share(argument(args, ReadStream.N_BYTES) // 256, thread, threads)
    x, ahead = argument(args, ReadStream.X), get_i64(argument(args, ReadStream.PATTERN))
    zero = load_i32(x)
    found = zero, zero, zero, zero
    if get_i64(argument(args, ReadStream.PATTERN) + 8) == STREAMS:
        part = (end - first) // STREAMS
        for i in range(first, first + part):
            found = _or_256_bytes(found, x + 256 * i, ahead)
            found = _or_256_bytes(found, x + 256 * (i + part), ahead)
            found = _or_256_bytes(found, x + 256 * (i + 2 * part), ahead)
            found = _or_256_bytes(found, x + 256 * (i + 3 * part), ahead)
        first += STREAMS * part
    for i in range(first, end):
        found = _or_256_bytes(found, x + 256 * i, ahead)
    a, b, c, d = found
    set_i32(argument(args, ReadStream.OUT) + 64 * thread, sum_lanes_i32(or_i32(or_i32(a, b), or_i32(c, d))))


read_stream = Kernel(_read_stream, ReadStream, {ReadStream.PATTERN: pattern_words(STREAM)}, name=STREAM)
