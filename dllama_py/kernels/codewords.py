"""Codewords with signs, of packed blocks: found one by one in tables in the cache, or all at once in registers.

A block has of each row one byte per codeword, the low byte of its number, in words of 32 bits; `high` has the ninth bit
of codeword j in place j of a row's lane; a word of 32 signs follows. Which bit is the sign of which column says
`sign_place`, so that vectors of fields and of signs need the fewest shifts.

Looked up one by one (`pairs`), a codeword is 8 or 4 bytes, and two vectors have 8 columns of 8 rows each. In registers
(`rows`, where shuffles see 64 bytes), what is looked up are bytes of bit fields, for all rows and codewords at once:
four fields of 2 bits or two of 3. They meet their signs there, and one more shuffle makes levels of them. A
field is the same column of each codeword, so that the vectors have their columns in an order of their own, `columns`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from llvmlite import ir

from dllama_py.codebooks import Codebook, codewords_of
from dllama_py.kernels.codegen import I64, LANES, VI32, const, load, pick_lanes
from dllama_py.kernels.dot4 import DOT4
from dllama_py.kernels.tables import BYTES, bytes_of_tables, eights_at, fours_at, negated_by, table_address

HALF_ROWS = (list(range(8)), list(range(8, LANES)))  # rows of the two vectors of 8 columns


def signed_bytes(levels: Any) -> bytes:
    """As products of signed bytes want them after `prepare`: with a bias of 128 where this CPU's are unsigned."""
    return (np.asarray(levels, np.int64) - DOT4.bias & 255).astype(np.uint8).tobytes()


def _masked(builder: Any, v: Any, mask: int) -> Any:
    return builder.and_(v, const(VI32, mask))


def _shifted(builder: Any, v: Any, right: int) -> Any:
    if right == 0:
        return v
    return builder.lshr(v, const(VI32, right)) if right > 0 else builder.shl(v, const(VI32, -right))


def _chosen(builder: Any, mask: int, a: Any, b: Any) -> Any:
    """Bits of a where the mask has them, of every byte, and else those of b."""
    return builder.or_(_masked(builder, a, mask * 0x01010101), _masked(builder, b, (mask ^ 255) * 0x01010101))


@dataclass(frozen=True)
class Codewords:
    """Of one weights type; `at` is the offset of the numbers in a block, the signs are behind them."""

    name: str
    book: Codebook
    at: int = 0
    scales_of_16: bool = False

    @property
    def n_words(self) -> int:
        """Of numbers."""
        return 8 // self.book.width

    @property
    def is_nine_bits(self) -> bool:
        return len(codewords_of(self.book)) > 256

    @cached_property
    def columns(self) -> list[int]:
        """Of the 32 bytes of a row in the 8 vectors of `rows`."""
        found = [0] * 32
        for column in range(32):
            vector, byte, _ = self._place(column)
            found[4 * vector + byte] = column
        return found

    def sign_place(self, column: int) -> tuple[int, int]:
        """Byte and bit of a column's sign."""
        vector, byte, bit = self._place(column)
        return byte, bit

    def _place(self, column: int) -> tuple[int, int, int]:
        """The vector of a column, its byte there, and the bit of that byte of the signs."""
        if self.book.width == 4:
            word, byte, plane, high = column // 16, column // 4 % 4, column // 2 % 2, column % 2
            return 4 * word + 2 * plane + high, byte, 2 * word + plane + 4 * high
        shift, high, plane, byte = column % 2, column // 2 % 2, column // 4 % 2, column // 8
        if self.scales_of_16:
            plane, byte = column // 16, column // 8 % 2 + 2 * (column // 4 % 2)
        return 4 * plane + 2 * shift + high, byte, 2 * (1 - plane) + shift + 4 * high

    # -- one by one -----------------------------------------------------------------------------------------------

    def pairs(self, builder: Any, weights: Any, high: Any, group: int) -> list[Any]:
        """Columns 8 * group.. in their order, two lanes a row: of rows 0..7, of rows 8..15."""
        table = table_address(builder, f"{self.name}_codewords", signed_bytes(codewords_of(self.book)))
        signs, found = self._word(builder, weights, self.n_words), []
        places = [self.sign_place(8 * group + column) for column in range(8)]
        for rows in HALF_ROWS:
            if self.book.width == 8:
                v = eights_at(builder, table, self._numbers(builder, weights, high, rows, [group]))
            else:
                v = fours_at(builder, table, self._numbers(builder, weights, high, rows, [2 * group, 2 * group + 1]))
            picked = [4 * row + byte for row in rows for byte, _ in places]
            spread = pick_lanes(builder, builder.bitcast(signs, BYTES), picked)
            bits = ir.Constant(BYTES, [1 << bit for _, bit in places] * 8)
            found.append(
                negated_by(
                    builder, builder.icmp_unsigned("!=", builder.and_(spread, bits), ir.Constant(BYTES, None)), v
                )
            )
        return found

    def _numbers(self, builder: Any, weights: Any, high: Any, rows: list[int], codewords: list[int]) -> Any:
        """A lane for each row and codeword of one word."""
        word = self._word(builder, weights, codewords[0] // 4)
        lanes = [row for row in rows for _ in codewords]
        lane = ir.VectorType(VI32.element, len(lanes))
        word = builder.lshr(pick_lanes(builder, word, lanes), ir.Constant(lane, [8 * (j % 4) for j in codewords] * 8))
        numbers = builder.and_(word, ir.Constant(lane, [255] * len(lanes)))
        if not self.is_nine_bits:
            return numbers
        bit = builder.lshr(pick_lanes(builder, high, lanes), ir.Constant(lane, codewords * 8))
        ninth = builder.and_(bit, ir.Constant(lane, [1] * len(lanes)))
        return builder.or_(numbers, builder.shl(ninth, ir.Constant(lane, [8] * len(lanes))))

    def _word(self, builder: Any, weights: Any, number: int) -> Any:
        return load(builder, builder.add(weights, I64(self.at + 64 * number)), VI32)

    # -- in registers ---------------------------------------------------------------------------------------------

    def rows(self, builder: Any, weights: Any, high: Any) -> list[Any]:
        """8 vectors of 4 columns, a lane a row; with scales of 16 columns the first 4 have columns 0..15."""
        signs = self._word(builder, weights, self.n_words)
        found = []
        for number in range(self.n_words):
            planes = self._planes(builder, weights, high, number)
            if self.book.width == 4:
                for i, plane in enumerate(planes, 2 * number):
                    found += self._levels(builder, _chosen(builder, 0x77, plane, _shifted(builder, signs, i - 3)), 8)
                continue
            if self.scales_of_16:
                planes = _by_halves(builder, *planes)
            for plane, of_plane in zip(planes, (signs, _shifted(builder, signs, -2)), strict=True):
                for shift in range(2):
                    fields = _chosen(builder, 0x33, _shifted(builder, plane, 2 * shift), of_plane)
                    found += self._levels(builder, fields, 4 << shift)
        return found

    def _planes(self, builder: Any, weights: Any, high: Any, number: int) -> list[Any]:
        """Digits of columns 0..3 and 4..7 (of 0, 1 and 2, 3) of the codewords of a word, in fields of bytes."""
        digits = np.searchsorted(self.book.levels, codewords_of(self.book))  # [words, width]
        per_byte, bits = self.book.width // 2, 16 // self.book.width
        weight = 1 << bits * np.arange(per_byte)
        tables = [(digits[:, i : i + per_byte] * weight).sum(1).astype(np.uint8) for i in (0, per_byte)]
        ninth = None
        if self.is_nine_bits:
            nibbles = _masked(builder, _shifted(builder, high, 4 * number), 15)
            spread = builder.mul(nibbles, const(VI32, 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28))
            ninth = builder.icmp_signed("<", builder.bitcast(spread, BYTES), ir.Constant(BYTES, None))
        return bytes_of_tables(builder, [t.tobytes() for t in tables], self._word(builder, weights, number), ninth)

    def _levels(self, builder: Any, fields: Any, negative: int) -> list[Any]:
        """Of low nibbles and of high ones; the bit `negative` of a nibble is the sign."""
        levels = np.resize([*self.book.levels, 0][: 4 if self.book.width == 8 else 8], 64).astype(np.int64)
        levels[np.arange(64) & negative != 0] *= -1
        table = signed_bytes(levels)
        return [bytes_of_tables(builder, [table], _shifted(builder, fields, right), None)[0] for right in (0, 4)]


def _by_halves(builder: Any, first: Any, last: Any) -> list[Any]:
    """Bytes 0 and 1 of both words, and bytes 2 and 3."""
    low = builder.or_(_masked(builder, first, 0xFFFF), _shifted(builder, last, -16))
    return [low, builder.or_(_shifted(builder, first, 16), _masked(builder, last, -0x10000))]
