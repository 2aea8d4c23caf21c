"""Blocks of small codes times blocks of activations: how codes are unpacked, and the sums of a tile of rows.

A block of 32 columns becomes 8 vectors of bytes, vector j with columns 4j..4j+3 of 16 rows (layout.py); they are
unpacked once for all rows of a tile. `rows_dot_...(acc, weights, addresses, offset)` adds to acc[m] the codes at the
address `weights` times the signed bytes at addresses[m] + offset.
"""

from collections.abc import Callable
from typing import Any

from numba import types
from numba.extending import intrinsic

from dllama_py.kernels.codegen import I32, I64, VI32, const, load, splat
from dllama_py.kernels.dot4 import DOT4
from dllama_py.kernels.tiles import load_at, rows_of

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


def _define(name: str, unpack: Unpack, largest: int, vectors: range = range(8)) -> Any:
    """The intrinsic for codes 0..largest, over some of the 8 vectors."""

    def rows_dot(typingctx: Any, acc: Any, weights: Any, addresses: Any, offset: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            acc, weights, addresses, offset = args
            codes = unpack(builder, weights)
            wanted = [codes[j] for j in vectors]
            at = [builder.add(offset, I64(4 * j)) for j in vectors]

            def make(m: int) -> Any:
                words = [splat(builder, load_at(builder, addresses, m, o, I32)) for o in at]
                return DOT4.small(builder, builder.extract_value(acc, m), wanted, words, largest)

            return rows_of(builder, signature.args[0].height, VI32, make)

        return acc(acc, types.intp, addresses, types.intp), codegen

    rows_dot.__name__ = name
    return intrinsic(rows_dot)


rows_dot_nibbles = _define("rows_dot_nibbles", nibble_vectors, 15)
"""4 vectors of nibbles."""
rows_dot_fives = _define("rows_dot_fives", _fives, 31)
"""4 vectors of nibbles, then one of high bits."""

_FIRST, _LAST = range(4), range(4, 8)  # columns 0..15, 16..31
rows_dot_first_pairs = _define("rows_dot_first_pairs", _pairs, 3, _FIRST)
rows_dot_last_pairs = _define("rows_dot_last_pairs", _pairs, 3, _LAST)
"""2 vectors of bit pairs."""
rows_dot_first_threes = _define("rows_dot_first_threes", _threes, 7, _FIRST)
rows_dot_last_threes = _define("rows_dot_last_threes", _threes, 7, _LAST)
"""2 vectors of bit pairs, then one of high bits."""
rows_dot_first_sixes = _define("rows_dot_first_sixes", _sixes, 63, _FIRST)
rows_dot_last_sixes = _define("rows_dot_last_sixes", _sixes, 63, _LAST)
"""4 vectors of nibbles, then 2 of high bit pairs."""
