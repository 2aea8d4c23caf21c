"""Blocks of table numbers times blocks of activations: `rows_dot_...` as in code_products.py, for codebook types.

Numbers of 16 levels are nibbles, unpacked as other codes are. A codeword is 8 (or 4) bytes at once; there a block
becomes 8 vectors of another kind: vector 2g + h has columns 8g..8g+7 of rows 8h..8h+7, two lanes a row, which are added
when the block has been summed. Levels may be stored with the bias that signed products of this CPU want.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from dllama_py.codebooks import (
    IQ1_BOOK,
    IQ2_S_BOOK,
    IQ2_XS_BOOK,
    IQ2_XXS_BOOK,
    IQ3_S_BOOK,
    IQ3_XXS_BOOK,
    IQ4_LEVELS,
    MXFP4_LEVELS,
    codewords_of,
)
from dllama_py.kernels.code_products import nibble_vectors
from dllama_py.kernels.codegen import I8, I32, I64, LANES, VI32, const, load, pick_lanes, splat
from dllama_py.kernels.dot4 import DOT4
from dllama_py.kernels.tables import byte_of_table, eights_at, fours_at, negated_where, table_address
from dllama_py.kernels.tiles import load_at, rows_of
from dllama_py.kernels.vectors import i32x16

MXFP4_OFFSET = 12
"""Levels of MXFP4 are stored with it, so that they are not negative."""
IQ1_OFFSET = 9
"""So are the codes of IQ1, 8 * level + shift."""


def _signed_bytes(levels: Any) -> bytes:
    """As products of signed bytes want them after `prepare`: with a bias of 128 where this CPU's are unsigned."""
    surplus = 128 if DOT4.bias else 0
    return (np.asarray(levels, np.int64) + surplus & 255).astype(np.uint8).tobytes()


_IQ4_TABLE = _signed_bytes(IQ4_LEVELS)
_MXFP4_TABLE = bytes(level + MXFP4_OFFSET for level in MXFP4_LEVELS)


def _sum_of_signed(builder: Any, acc: Any, vectors: list[Any], words: list[Any]) -> Any:
    for v, word in zip(vectors, words, strict=True):
        acc = DOT4.signed(builder, acc, v, word)
    return acc


def _sum_of_mxfp4(builder: Any, acc: Any, vectors: list[Any], words: list[Any]) -> Any:
    return DOT4.small(builder, acc, vectors, words, 2 * MXFP4_OFFSET)


def _define_levels(name: str, table: bytes, sum_of: Callable[..., Any]) -> Any:
    """The intrinsic for 4 vectors of nibbles that are numbers of a table of 16 bytes."""

    def rows_dot(typingctx: Any, acc: Any, weights: Any, addresses: Any, offset: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            acc, weights, addresses, offset = args
            vectors = [byte_of_table(builder, table, v) for v in nibble_vectors(builder, weights)]
            at = [builder.add(offset, I64(4 * j)) for j in range(8)]

            def make(m: int) -> Any:
                words = [splat(builder, load_at(builder, addresses, m, o, I32)) for o in at]
                return sum_of(builder, builder.extract_value(acc, m), vectors, words)

            return rows_of(builder, signature.args[0].height, VI32, make)

        return acc(acc, types.intp, addresses, types.intp), codegen

    rows_dot.__name__ = name
    return intrinsic(rows_dot)


rows_dot_iq4 = _define_levels("rows_dot_iq4", _IQ4_TABLE, _sum_of_signed)
"""acc must have started at SIGNED_BIAS * (sum of the activations)."""
rows_dot_mxfp4 = _define_levels("rows_dot_mxfp4", _MXFP4_TABLE, _sum_of_mxfp4)
"""acc must have started at -MXFP4_OFFSET * (sum of the activations)."""

# -- codewords ------------------------------------------------------------------------------------------------

_EIGHT = ir.VectorType(I32, 8)
_HALVES = (list(range(8)), list(range(8, LANES)))  # rows of vector 2g and of vector 2g + 1
_TWOS = 0x0202020202020202
Fetch = Callable[[Any, Any, Any, int], list[Any]]


@dataclass(frozen=True, slots=True)
class _Eights:
    """Codewords of 8: their low bytes as fields of a byte, `high_bits` more of each in a row's lane of `high`."""

    name: str
    table: bytes
    high_bits: int = 0

    def __call__(self, builder: Any, weights: Any, high: Any, group: int) -> list[Any]:
        """Vectors 2g and 2g + 1."""
        low = load(builder, builder.add(weights, I64(16 * group)), ir.VectorType(I8, LANES))
        numbers = _with_high_bits(builder, builder.zext(low, VI32), high, self.high_bits * group, self.high_bits)
        table = table_address(builder, self.name, self.table)
        return [eights_at(builder, table, pick_lanes(builder, numbers, rows)) for rows in _HALVES]


@dataclass(frozen=True, slots=True)
class _Fours:
    """Codewords of 4, two in a field of 2 bytes; bit j of a row's lane of `high` belongs to its codeword j."""

    name: str
    table: bytes

    def __call__(self, builder: Any, weights: Any, high: Any, group: int) -> list[Any]:
        table, found = table_address(builder, self.name, self.table), []
        for half, rows in enumerate(_HALVES):
            low = load(builder, builder.add(weights, I64(32 * group + 16 * half)), ir.VectorType(I8, LANES))
            twice = pick_lanes(builder, high, [row for row in rows for _ in range(2)])
            places = ir.Constant(VI32, [2 * group, 2 * group + 1] * 8)
            bits = builder.and_(builder.lshr(twice, places), const(VI32, 1))
            numbers = builder.or_(builder.zext(low, VI32), builder.shl(bits, const(VI32, 8)))
            found.append(fours_at(builder, table, numbers))
        return found


def _with_high_bits(builder: Any, low: Any, high: Any, at: int, width: int) -> Any:
    if not width:
        return low
    bits = builder.and_(builder.lshr(high, const(VI32, at)), const(VI32, (1 << width) - 1))
    return builder.or_(low, builder.shl(bits, const(VI32, 8)))


def _with_signs(fetch: Fetch, signs_at: int) -> Fetch:
    """Then the signs: as fields of a byte, a bit for each of the 8 columns."""

    def fetched(builder: Any, weights: Any, high: Any, group: int) -> list[Any]:
        signs = [load(builder, builder.add(weights, I64(signs_at + 16 * group + 8 * half)), I64) for half in range(2)]
        vectors = fetch(builder, weights, high, group)
        return [negated_where(builder, bits, v) for bits, v in zip(signs, vectors, strict=True)]

    return fetched


def _iq1(builder: Any, weights: Any, high: Any, group: int) -> list[Any]:
    """Of each codeword 4 bits in `high`: 3 of its number, and whether 1 is taken off its codes instead of added."""
    eights = ir.VectorType(I64, 8)
    low = load(builder, builder.add(weights, I64(16 * group)), ir.VectorType(I8, LANES))
    numbers = _with_high_bits(builder, builder.zext(low, VI32), high, 4 * group, 3)
    table, found = table_address(builder, "iq1_codewords", _IQ1_TABLE), []
    for rows in _HALVES:
        v = eights_at(builder, table, pick_lanes(builder, numbers, rows))
        below = builder.and_(pick_lanes(builder, high, rows), ir.Constant(_EIGHT, [8 << 4 * group] * 8))
        is_above = builder.icmp_signed("==", below, ir.Constant(_EIGHT, None))
        twos = builder.select(is_above, ir.Constant(eights, [_TWOS] * 8), ir.Constant(eights, None))
        found.append(builder.add(v, builder.bitcast(twos, VI32)))
    return found


def _sum_of_iq1(builder: Any, acc: Any, vectors: list[Any], words: list[Any]) -> Any:
    return DOT4.small(builder, acc, vectors, words, 2 * IQ1_OFFSET)


def _define_codewords(name: str, fetch: Fetch, groups: range = range(4), sum_of: Any = _sum_of_signed) -> Any:
    """The intrinsic for some groups of 8 columns."""

    def rows_dot(typingctx: Any, acc: Any, weights: Any, high: Any, addresses: Any, offset: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            acc, weights, high, addresses, offset = args
            vectors = [fetch(builder, weights, high, group) for group in groups]

            def make(m: int) -> Any:
                at = [builder.add(offset, I64(8 * group)) for group in groups]
                words = [_splat_eight(builder, load_at(builder, addresses, m, o, I64)) for o in at]
                halves = [sum_of(builder, const(VI32, 0), [pair[half] for pair in vectors], words) for half in (0, 1)]
                return builder.add(builder.extract_value(acc, m), _row_sums(builder, *halves))

            return rows_of(builder, signature.args[0].height, VI32, make)

        return acc(acc, types.intp, i32x16, addresses, types.intp), codegen

    rows_dot.__name__ = name
    return intrinsic(rows_dot)


def _splat_eight(builder: Any, word: Any) -> Any:
    """8 bytes in all pairs of lanes."""
    eights = ir.VectorType(I64, LANES // 2)
    first = builder.insert_element(ir.Constant(eights, ir.Undefined), word, I32(0))
    return builder.bitcast(builder.shuffle_vector(first, first, ir.Constant(_EIGHT, [0] * 8)), VI32)


def _row_sums(builder: Any, low: Any, high: Any) -> Any:
    """Lanes 2r and 2r + 1 added, of rows 0..7 and of rows 8..15."""
    even, odd = (ir.Constant(VI32, list(range(first, 2 * LANES, 2))) for first in (0, 1))
    return builder.add(builder.shuffle_vector(low, high, even), builder.shuffle_vector(low, high, odd))


_IQ1_TABLE = (8 * (codewords_of(IQ1_BOOK) + 1)).astype(np.uint8).tobytes()
_IQ2XXS = _with_signs(_Eights("iq2_xxs_codewords", _signed_bytes(codewords_of(IQ2_XXS_BOOK))), 64)
_IQ2XS = _with_signs(_Eights("iq2_xs_codewords", _signed_bytes(codewords_of(IQ2_XS_BOOK)), 1), 64)
_IQ2S = _with_signs(_Eights("iq2_s_codewords", _signed_bytes(codewords_of(IQ2_S_BOOK)), 2), 64)
_IQ3XXS = _with_signs(_Fours("iq3_xxs_codewords", _signed_bytes(codewords_of(IQ3_XXS_BOOK))), 128)
_IQ3S = _with_signs(_Fours("iq3_s_codewords", _signed_bytes(codewords_of(IQ3_S_BOOK))), 128)
_FIRST, _LAST = range(2), range(2, 4)

rows_dot_iq2xxs = _define_codewords("rows_dot_iq2xxs", _IQ2XXS)
rows_dot_first_iq2xs = _define_codewords("rows_dot_first_iq2xs", _IQ2XS, _FIRST)
rows_dot_last_iq2xs = _define_codewords("rows_dot_last_iq2xs", _IQ2XS, _LAST)
rows_dot_first_iq2s = _define_codewords("rows_dot_first_iq2s", _IQ2S, _FIRST)
rows_dot_last_iq2s = _define_codewords("rows_dot_last_iq2s", _IQ2S, _LAST)
rows_dot_iq3xxs = _define_codewords("rows_dot_iq3xxs", _IQ3XXS)
rows_dot_iq3s = _define_codewords("rows_dot_iq3s", _IQ3S)
rows_dot_iq1s = _define_codewords("rows_dot_iq1s", _iq1, sum_of=_sum_of_iq1)
rows_dot_first_iq1m = _define_codewords("rows_dot_first_iq1m", _iq1, _FIRST, _sum_of_iq1)
rows_dot_last_iq1m = _define_codewords("rows_dot_last_iq1m", _iq1, _LAST, _sum_of_iq1)
