"""Blocks of codewords times blocks of activations: `rows_dot_...` as in code_products.py, and `decode_...` for panels.

Codewords looked up one by one (codewords.py) make 8 vectors of another kind: vector 2g + h has columns 8g..8g+7 of rows
8h..8h+7, two lanes a row, which are added when the block has been summed.
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
    codewords_of,
)
from dllama_py.kernels.codebook_products import sum_of_signed
from dllama_py.kernels.codegen import (
    I8,
    I32,
    I64,
    LANES,
    VF32,
    VI32,
    const,
    define,
    fused,
    load,
    pick_lanes,
    splat,
    stack_room,
    store,
)
from dllama_py.kernels.codewords import HALF_ROWS, Codewords, signed_bytes
from dllama_py.kernels.dot4 import DOT4
from dllama_py.kernels.layout import X_SUM_FIRST, X_SUM_LAST
from dllama_py.kernels.tables import HAS_WIDE_SHUFFLES, eights_at, negated_where, table_address
from dllama_py.kernels.tiles import load_at, rows_of, tile_f32
from dllama_py.kernels.vectors import f32x16, i32x16

IQ1_OFFSET = 9
"""Codes of IQ1 are stored with it, 8 * level + shift, so that they are not negative."""

_EIGHT = ir.VectorType(I32, 8)
_PAIRS = [ir.Constant(VI32, list(range(first, 2 * LANES, 2))) for first in (0, 1)]  # the lanes of a row
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
        return [eights_at(builder, table, pick_lanes(builder, numbers, rows)) for rows in HALF_ROWS]


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
    for rows in HALF_ROWS:
        v = eights_at(builder, table, pick_lanes(builder, numbers, rows))
        below = builder.and_(pick_lanes(builder, high, rows), ir.Constant(_EIGHT, [8 << 4 * group] * 8))
        is_above = builder.icmp_signed("==", below, ir.Constant(_EIGHT, None))
        twos = builder.select(is_above, ir.Constant(eights, [_TWOS] * 8), ir.Constant(eights, None))
        found.append(builder.add(v, builder.bitcast(twos, VI32)))
    return found


def _sum_of_iq1(builder: Any, acc: Any, vectors: list[Any], words: list[Any]) -> Any:
    return DOT4.small(builder, acc, vectors, words, 2 * IQ1_OFFSET)


def _define_codewords(name: str, fetch: Fetch, groups: range = range(4), sum_of: Any = sum_of_signed) -> Any:
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


def _of_blocks(name: str, words: Codewords) -> Any:
    """The intrinsic for blocks of one scale: acc + sums, acc as for sum_of_signed."""
    if not HAS_WIDE_SHUFFLES:
        return _define_codewords(name, words.pairs)

    def rows_dot(typingctx: Any, acc: Any, weights: Any, high: Any, addresses: Any, offset: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            acc, weights, high, addresses, offset = args
            vectors = words.rows(builder, weights, high)

            def make(m: int) -> Any:
                x = _words_in_order(builder, builder.add(builder.extract_value(addresses, m), offset), words.columns)
                return sum_of_signed(builder, builder.extract_value(acc, m), vectors, x)

            return rows_of(builder, signature.args[0].height, VI32, make)

        return acc(acc, types.intp, i32x16, addresses, types.intp), codegen

    rows_dot.__name__ = name
    return intrinsic(rows_dot)


def _of_halves(name: str, words: Codewords) -> Any:
    """The intrinsic for scales of 16 columns: float32 a * (sums of the first 16) + b * (sums of the last)."""

    def rows_dot(typingctx: Any, weights: Any, high: Any, a: Any, b: Any, addresses: Any, offset: Any) -> Any:
        tile = tile_f32(addresses.height)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            weights, high, a, b, addresses, offset = args
            sums_of = (_halves_in_registers if HAS_WIDE_SHUFFLES else _halves_by_pairs)(builder, words, weights, high)

            def make(m: int) -> Any:
                at, sums = builder.add(builder.extract_value(addresses, m), offset), []
                for found, sum_at in zip(sums_of(at), (X_SUM_FIRST, X_SUM_LAST), strict=True):
                    of_x = splat(builder, load(builder, builder.add(at, I64(sum_at)), I32))
                    start = builder.mul(of_x, const(VI32, DOT4.bias))
                    sums.append(builder.sitofp(builder.add(found, start), VF32))
                return fused(builder, b, sums[1], builder.fmul(a, sums[0]))

            return rows_of(builder, tile.height, VF32, make)

        return tile(types.intp, i32x16, f32x16, f32x16, addresses, types.intp), codegen

    rows_dot.__name__ = name
    return intrinsic(rows_dot)


def _halves_in_registers(builder: Any, words: Codewords, weights: Any, high: Any) -> Callable[[Any], list[Any]]:
    vectors = words.rows(builder, weights, high)

    def sums_of(at: Any) -> list[Any]:
        x = _words_in_order(builder, at, words.columns)
        return [sum_of_signed(builder, const(VI32, 0), vectors[i : i + 4], x[i : i + 4]) for i in (0, 4)]

    return sums_of


def _halves_by_pairs(builder: Any, words: Codewords, weights: Any, high: Any) -> Callable[[Any], list[Any]]:
    vectors = [words.pairs(builder, weights, high, group) for group in range(4)]

    def sums_of(at: Any) -> list[Any]:
        x, found = [_splat_eight(builder, load(builder, builder.add(at, I64(8 * g)), I64)) for g in range(4)], []
        for groups in (slice(0, 2), slice(2, 4)):
            halves = [
                sum_of_signed(builder, const(VI32, 0), [pair[half] for pair in vectors[groups]], x[groups])
                for half in (0, 1)
            ]
            found.append(_row_sums(builder, *halves))
        return found

    return sums_of


def _words_in_order(builder: Any, address: Any, columns: list[int]) -> list[Any]:
    """8 words of a row of activations, its bytes in another order, each in all lanes.

    They go through memory, from which a product takes a word at no price; the empty assembly keeps LLVM from moving
    them between registers instead.
    """
    row = load(builder, address, ir.VectorType(I8, 32))
    at = stack_room(builder, row.type, 32)
    store(builder, at, pick_lanes(builder, row, columns))
    builder.asm(ir.FunctionType(ir.VoidType(), [I64]), "", "r,~{memory}", [at], True)
    return [splat(builder, load(builder, builder.add(at, I64(4 * i)), I32)) for i in range(8)]


def _define_decode(fetch: Fetch, offset: int = 0) -> Any:
    """The intrinsic that writes a block as bytes that DOT4.signed takes: vectors 0..7, a lane a row, 64 bytes each."""

    def build(builder: Any, weights: Any, high: Any, out: Any) -> None:
        surplus = ir.Constant(ir.VectorType(I8, 4 * LANES), [(-DOT4.bias - offset) & 255] * (4 * LANES))
        for group in range(4):
            low, last = fetch(builder, weights, high, group)
            for half, lanes in enumerate(_PAIRS):
                codes = builder.shuffle_vector(low, last, lanes)
                if offset:
                    codes = builder.bitcast(builder.add(builder.bitcast(codes, surplus.type), surplus), VI32)
                store(builder, builder.add(out, I64(128 * group + 64 * half)), codes)

    return define(types.void, (types.intp, i32x16, types.intp), build, "decode_codewords")


def _splat_eight(builder: Any, word: Any) -> Any:
    """8 bytes in all pairs of lanes."""
    eights = ir.VectorType(I64, LANES // 2)
    first = builder.insert_element(ir.Constant(eights, ir.Undefined), word, I32(0))
    return builder.bitcast(builder.shuffle_vector(first, first, ir.Constant(_EIGHT, [0] * 8)), VI32)


def _row_sums(builder: Any, low: Any, high: Any) -> Any:
    """Lanes 2r and 2r + 1 added, of rows 0..7 and of rows 8..15."""
    even, odd = _PAIRS
    return builder.add(builder.shuffle_vector(low, high, even), builder.shuffle_vector(low, high, odd))


_IQ1_TABLE = (8 * (codewords_of(IQ1_BOOK) + 1)).astype(np.uint8).tobytes()
_IQ2XXS, _IQ3XXS = Codewords("iq2_xxs", IQ2_XXS_BOOK), Codewords("iq3_xxs", IQ3_XXS_BOOK)
_IQ2XS = Codewords("iq2_xs", IQ2_XS_BOOK, at=16, scales_of_16=True)
_IQ3S = Codewords("iq3_s", IQ3_S_BOOK, at=16)
_IQ2S = _with_signs(_Eights("iq2_s_codewords", signed_bytes(codewords_of(IQ2_S_BOOK)), 2), 64)
_FIRST, _LAST = range(2), range(2, 4)

rows_dot_iq2xxs, rows_dot_iq3xxs = _of_blocks("rows_dot_iq2xxs", _IQ2XXS), _of_blocks("rows_dot_iq3xxs", _IQ3XXS)
rows_dot_iq2xs, rows_dot_iq3s = _of_halves("rows_dot_iq2xs", _IQ2XS), _of_blocks("rows_dot_iq3s", _IQ3S)
rows_dot_first_iq2s = _define_codewords("rows_dot_first_iq2s", _IQ2S, _FIRST)
rows_dot_last_iq2s = _define_codewords("rows_dot_last_iq2s", _IQ2S, _LAST)
rows_dot_iq1s = _define_codewords("rows_dot_iq1s", _iq1, sum_of=_sum_of_iq1)
rows_dot_first_iq1m = _define_codewords("rows_dot_first_iq1m", _iq1, _FIRST, _sum_of_iq1)
rows_dot_last_iq1m = _define_codewords("rows_dot_last_iq1m", _iq1, _LAST, _sum_of_iq1)

decode_iq2xxs, decode_iq3xxs = _define_decode(_IQ2XXS.pairs), _define_decode(_IQ3XXS.pairs)
decode_iq2xs, decode_iq3s = _define_decode(_IQ2XS.pairs), _define_decode(_IQ3S.pairs)
decode_iq2s, decode_iq1 = _define_decode(_IQ2S), _define_decode(_iq1, IQ1_OFFSET)
