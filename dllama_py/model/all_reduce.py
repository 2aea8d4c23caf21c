"""The all-reduce as instructions: every rank ends with the bits of one binary tree over the ranks, neighbours first.

Short vectors: recursive doubling, log2(N) exchanges of the whole vector. Long ones: halving the vector while
doubling the distance, then the mirror of it, which moves 2 (N - 1) / N of the vector. Both start with the
neighbour at distance 1, so each element is added along ((0+1)+(2+3))+((4+5)+(6+7)) either way (Rabenseifner's
algorithm begins at the far end, which would be another tree).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dllama_py.blocks import BLOCK, Floats
from dllama_py.cost_model import long_from_values
from dllama_py.kernels import exchange
from dllama_py.kernels.elementary import KEEP_F32
from dllama_py.kernels.program import Instruction, Kernel
from dllama_py.kernels.swap import swap
from dllama_py.wire import Wire

Array = NDArray[Any]
Ints = NDArray[np.int64]


class Ranks(Protocol):
    """Who takes part: a Comm."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of the vector, as kernels/exchange.py cuts it; bits of the path above the level do not count."""

    level: int
    path: int


WHOLE = Span(0, 0)


class AllReduce:
    """Sums the first n_rows rows of `values`, float32 [T, D], over the ranks, in place.

    They are rounded to the exchange format already. On two ranks both ways move the same bytes, so doubling serves all
    lengths. ValueError for a number of ranks that is no power of two: that is no whole tree.
    """

    def __init__(self, wire: Wire, ranks: Ranks, values: Floats, n_rows: Ints, rounding: int) -> None:
        if ranks.size & (ranks.size - 1):
            raise ValueError(f"a tree over {ranks.size} ranks; only powers of two are whole trees")
        self.wire = wire
        self.long_from_values = long_from_values(ranks.size)
        self._rank = ranks.rank
        self._distances = [1 << level for level in range(ranks.size.bit_length() - 1)]
        self._values = values
        self._n_rows = n_rows
        self._rounding = rounding
        n_bytes = values.size // BLOCK * exchange.WIRE_BLOCK_BYTES[rounding]
        self._is_plain = rounding == KEEP_F32
        self._own: Array = values if self._is_plain else np.empty(n_bytes, np.uint8)
        self._received = np.empty(n_bytes, np.uint8)

    @property
    def n_bytes(self) -> int:
        """Of its buffers."""
        return self._received.nbytes + (0 if self._is_plain else self._own.nbytes)

    def doubling(self) -> Iterator[Instruction]:
        """For short vectors: as few messages as can be."""
        for distance in self._distances:
            yield from self._encode(WHOLE)
            yield self._swap(WHOLE, self._received, WHOLE, distance)
            yield self._add(WHOLE)

    def halving_and_doubling(self) -> Iterator[Instruction]:
        """For long vectors: as few bytes as can be. At level k a rank has summed the span of its lowest k bits."""
        rank, n_levels = self._rank, len(self._distances)
        for level, distance in enumerate(self._distances):
            kept, given = Span(level + 1, rank), Span(level + 1, rank ^ distance)
            yield from self._encode(Span(level, rank))
            yield self._swap(given, self._received, kept, distance)
            yield self._add(kept)
        yield from self._encode(Span(n_levels, rank))
        for level in reversed(range(n_levels)):
            distance = self._distances[level]
            yield self._swap(Span(level + 1, rank), self._own, Span(level + 1, rank ^ distance), distance)
        if not self._is_plain:
            yield self._coding(exchange.decode, WHOLE, self._own)

    def _encode(self, span: Span) -> Iterator[Instruction]:
        if not self._is_plain:
            yield self._coding(exchange.encode, span, self._own)

    def _add(self, span: Span) -> Instruction:
        return self._coding(exchange.add_received, span, self._received)

    def _coding(self, kernel: Kernel, span: Span, wire: Array) -> Instruction:
        return kernel(
            n_rows=self._n_rows,
            n_blocks=self._values.shape[1] // BLOCK,
            level=span.level,
            path=span.path,
            values=self._values,
            wire=wire,
            rounding=self._rounding,
        )

    def _swap(self, sent: Span, into: Array, received: Span, distance: int) -> Instruction:
        return swap(
            n_rows=self._n_rows,
            n_blocks=self._values.shape[1] // BLOCK,
            block_bytes=exchange.WIRE_BLOCK_BYTES[self._rounding],
            sent=self._own,
            sent_level=sent.level,
            sent_path=sent.path,
            received=into,
            received_level=received.level,
            received_path=received.path,
            partner=self._rank ^ distance,
            wire=self.wire.words,
        )
