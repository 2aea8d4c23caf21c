"""A hash of rows of floats: where two ranks, or two runs, hold other bits, their hashes differ.

Each of 16 lanes takes every 16th word of the row in turn by the rule of MurmurHash3 (Austin Appleby), from h = 0:
`h = rotate(h ^ rotate(word * C1, 15) * C2, 13) * 5 + C3` modulo 2^32. The lanes go one after the other into 64 bits,
`total = (rotate(total, 5) ^ h) * ODD`. Every step can be undone, so rows that differ in one word never have the same
hash, and others by chance only. It guards against faults, not against forgers.
"""

from typing import Any

from llvmlite import ir
from numba import types

from dllama_py.kernels.codegen import I32, I64, LANES, VI32, const, define
from dllama_py.kernels.program import argument, kernel, share
from dllama_py.kernels.vectors import get_i64, i32x16, load_i32, set_i64, splat_i32
from dllama_py.kernels.words import Words

C1, C2, C3 = 0xCC9E2D51, 0x1B873593, 0xE6546B64  # MurmurHash3's, for 32 bits
ODD = 0x9E3779B97F4A7C15  # from the golden ratio


def _turned(builder: Any, v: Any, bits: int) -> Any:
    """Rotated to the left, in each of 16 lanes."""
    return builder.or_(builder.shl(v, const(VI32, bits)), builder.lshr(v, const(VI32, 32 - bits)))


def _mixed(builder: Any, h: Any, words: Any) -> Any:
    words = builder.mul(_turned(builder, builder.mul(words, const(VI32, C1)), 15), const(VI32, C2))
    h = _turned(builder, builder.xor(h, words), 13)
    return builder.add(builder.mul(h, const(VI32, 5)), const(VI32, C3))


def _folded(builder: Any, h: Any) -> Any:
    total: Any = ir.Constant(I64, 0)
    for lane in range(LANES):
        word = builder.zext(builder.extract_element(h, I32(lane)), I64)
        turned = builder.or_(builder.shl(total, I64(5)), builder.lshr(total, I64(59)))
        total = builder.mul(builder.xor(turned, word), I64(ODD))
    return total


mix = define(i32x16, (i32x16,) * 2, _mixed, "mix")
fold = define(types.int64, (i32x16,), _folded, "fold")


class HashRows(Words):
    N_ROWS = "int64 [1], rows of the step"
    X = "float32 [n_planes, *, width]"
    X_STRIDE = "bytes from row to row"
    N_PLANES = "arrays of rows that lie one behind the other"
    PLANE_STRIDE = "bytes from one to the next"
    WIDTH = "floats of a row, a multiple of 16"
    OUT = "int64 [n_planes, *]"
    OUT_STRIDE = "bytes from plane to plane of out"


@kernel(HashRows)
def hash_rows(args: int, thread: int, threads: int) -> None:
    """out[plane, row] = hash of the bits of x[plane, row]."""
    n_rows = get_i64(argument(args, HashRows.N_ROWS))
    first, end = share(n_rows * argument(args, HashRows.N_PLANES), thread, threads)
    for item in range(first, end):
        plane, row = item // n_rows, item % n_rows
        x = argument(args, HashRows.X) + plane * argument(args, HashRows.PLANE_STRIDE)
        x += row * argument(args, HashRows.X_STRIDE)
        h = splat_i32(types.int32(0))
        for i in range(0, 4 * argument(args, HashRows.WIDTH), 64):
            h = mix(h, load_i32(x + i))
        set_i64(argument(args, HashRows.OUT) + plane * argument(args, HashRows.OUT_STRIDE) + 8 * row, fold(h))
