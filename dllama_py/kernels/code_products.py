"""Blocks of small codes times blocks of activations: how codes are unpacked, and the sums of a tile of rows.

A block of 32 columns becomes 8 vectors of bytes, vector j with columns 4j..4j+3 of 16 rows (layout.py); they are
unpacked once for all rows of a tile. For each row m, whose block of activations lies at addresses[m] + offset:

- `rows_dot_...(factor, weights, addresses, offset)`: int32 Σ (code + factor) * activation;
- with scales a and b of 16 columns, float32 vectors, `rows_dot_...(factor, weights, a, b, addresses, offset)`: float32
  a * Σ over the first 16 + b * Σ over the last 16, exact while all is below 2^24.
"""

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from dllama_py.kernels.codegen import I32, I64, VF32, VI32, const, fused, load, splat
from dllama_py.kernels.dot4 import DOT4
from dllama_py.kernels.layout import X_SUM_FIRST, X_SUM_LAST
from dllama_py.kernels.tiles import load_at, rows_of, tile_f32, tile_i32
from dllama_py.kernels.vectors import f32x16

_VECTOR_BYTES = 64
Unpack = Callable[[Any, Any], list[Any]]


def _vectors(builder: Any, address: Any, count: int) -> list[Any]:
    return [load(builder, builder.add(address, I64(_VECTOR_BYTES * i)), VI32) for i in range(count)]


def _field(builder: Any, v: Any, at: int, mask: int, to: int = 0) -> Any:
    """Of every byte the bits `mask << at`, moved to `mask << to`."""
    if at > to:
        v = builder.lshr(v, const(VI32, at - to))
    if at < to:
        v = builder.shl(v, const(VI32, to - at))
    return builder.and_(v, const(VI32, (mask << to) * 0x01010101))


def nibble_vectors(builder: Any, address: Any) -> list[Any]:
    """The 8 vectors of 4 vectors of nibbles."""
    vectors = _vectors(builder, address, 4)
    return [_field(builder, v, at, 15) for at in (0, 4) for v in vectors]


def _joined(builder: Any, low: list[Any], high: list[Any]) -> list[Any]:
    return [builder.or_(a, b) for a, b in zip(low, high, strict=True)]


def _pairs(builder: Any, address: Any, to: int = 0) -> list[Any]:
    return [_field(builder, v, 2 * j, 3, to) for v in _vectors(builder, address, 2) for j in range(4)]


def _bits(builder: Any, address: Any, to: int) -> list[Any]:
    (v,) = _vectors(builder, address, 1)
    return [_field(builder, v, j, 1, to) for j in range(8)]


def _threes(builder: Any, address: Any) -> list[Any]:
    high = _bits(builder, builder.add(address, I64(2 * _VECTOR_BYTES)), to=2)
    return _joined(builder, _pairs(builder, address), high)


def _fives(builder: Any, address: Any) -> list[Any]:
    high = _bits(builder, builder.add(address, I64(4 * _VECTOR_BYTES)), to=4)
    return _joined(builder, nibble_vectors(builder, address), high)


def _sixes(builder: Any, address: Any) -> list[Any]:
    high = _pairs(builder, builder.add(address, I64(4 * _VECTOR_BYTES)), to=4)
    return _joined(builder, nibble_vectors(builder, address), high)


def _sums(builder: Any, addresses: Any, m: int, at: Any, factor: Any, vectors: range) -> Any:
    """factor * (the sum of the activations of these vectors), in all lanes."""
    halves = [place for place, half in ((X_SUM_FIRST, _FIRST), (X_SUM_LAST, _LAST)) if set(half) <= set(vectors)]
    total = I32(0)
    for place in halves:
        total = builder.add(total, load_at(builder, addresses, m, builder.add(at, I64(place)), I32))
    return splat(builder, builder.mul(factor, total))


def _products(builder: Any, x: tuple[Any, int, Any], codes: list[Any], vectors: range, book: tuple[Any, int]) -> Any:
    """Row m's sum over these vectors. x: addresses, m, offset; book: factor of the activations' sum, largest code."""
    (addresses, m, at), (factor, largest) = x, book
    words = [splat(builder, load_at(builder, addresses, m, builder.add(at, I64(4 * j)), I32)) for j in vectors]
    acc = _sums(builder, addresses, m, at, factor, vectors)
    return DOT4.small(builder, acc, [codes[j] for j in vectors], words, largest)


def _of_blocks(name: str, unpack: Unpack, largest: int) -> Any:
    """The intrinsic for codes 0..largest."""

    def rows_dot(typingctx: Any, factor: Any, weights: Any, addresses: Any, offset: Any) -> Any:
        tile = tile_i32(addresses.height)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            factor, weights, addresses, offset = args
            codes = unpack(builder, weights)

            def make(m: int) -> Any:
                return _products(builder, (addresses, m, offset), codes, range(8), (factor, largest))

            return rows_of(builder, tile.height, VI32, make)

        return tile(types.int32, types.intp, addresses, types.intp), codegen

    rows_dot.__name__ = name
    return intrinsic(rows_dot)


def _of_halves(name: str, unpack: Unpack, largest: int) -> Any:
    """The intrinsic for codes 0..largest with scales of 16 columns."""

    def rows_dot(typingctx: Any, factor: Any, weights: Any, a: Any, b: Any, addresses: Any, offset: Any) -> Any:
        tile = tile_f32(addresses.height)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            factor, weights, a, b, addresses, offset = args
            codes = unpack(builder, weights)

            def make(m: int) -> Any:
                x, book = (addresses, m, offset), (factor, largest)
                first, last = (_products(builder, x, codes, vectors, book) for vectors in (_FIRST, _LAST))
                of_first = builder.fmul(a, builder.sitofp(first, VF32))
                return fused(builder, b, builder.sitofp(last, VF32), of_first)

            return rows_of(builder, tile.height, VF32, make)

        return tile(types.int32, types.intp, f32x16, f32x16, addresses, types.intp), codegen

    rows_dot.__name__ = name
    return intrinsic(rows_dot)


_FIRST, _LAST = range(4), range(4, 8)  # vectors of columns 0..15, 16..31

rows_dot_nibbles = _of_blocks("rows_dot_nibbles", nibble_vectors, 15)
"""4 vectors of nibbles."""
rows_dot_fives = _of_blocks("rows_dot_fives", _fives, 31)
"""4 vectors of nibbles, then one of high bits."""
rows_dot_pairs = _of_halves("rows_dot_pairs", _pairs, 3)
"""2 vectors of bit pairs."""
rows_dot_threes = _of_halves("rows_dot_threes", _threes, 7)
"""2 vectors of bit pairs, then one of high bits."""
rows_dot_sixes = _of_halves("rows_dot_sixes", _sixes, 63)
"""4 vectors of nibbles, then 2 of high bit pairs."""
