"""The all-reduce: every rank ends with the bits of one binary tree over the ranks, neighbours first.

Short vectors: recursive doubling, log2(N) exchanges of the whole vector. Long ones: halving the vector while
doubling the distance, then the mirror of it, which moves 2 (N - 1) / N of the vector. Both start with the
neighbour at distance 1, so each element is added along ((0+1)+(2+3))+((4+5)+(6+7)) either way (Rabenseifner's
algorithm begins at the far end, which would be another tree). How numbers are rounded and sent is the codec's.
"""

import sys

import numpy as np

from dllama_py.blocks import BLOCK, Bytes, Floats
from dllama_py.transport.codecs import Codec
from dllama_py.transport.comm import Comm

LONG_FROM_VALUES = 8192  # 4 ranks on 1 Gbit/s links: 1024 values 0.16 against 0.32 ms, 16384 values 6.6 against 5.0 ms
NEVER = sys.maxsize


class TreeAllReduce:
    """Sums float32 vectors of up to `max_values` over the ranks, in place; N must be a power of two.

    Vectors of `long_from` values and more take the way for long ones; the bits do not depend on it. On two ranks
    both ways move the same bytes, so the shorter is the default for all lengths.
    """

    def __init__(self, comm: Comm, codec: Codec, max_values: int, long_from: int | None = None) -> None:
        if comm.size & (comm.size - 1):
            raise ValueError(f"a tree over {comm.size} ranks; only powers of two are whole trees")
        self._comm = comm
        self._codec = codec
        self._long_from = (LONG_FROM_VALUES if comm.size > 2 else NEVER) if long_from is None else long_from
        self._own = np.empty(0 if codec.is_plain else codec.wire_bytes(max_values), np.uint8)
        self._received = np.empty(codec.wire_bytes(max_values), np.uint8)
        self._distances = [1 << step for step in range(comm.size.bit_length() - 1)]

    def __call__(self, values: Floats) -> None:
        """values: float32 [n], contiguous, whole blocks of 32, already rounded to the exchange format."""
        if values.size >= self._long_from and values.size >= BLOCK * self._comm.size:
            self._halve_and_double(values)
        else:
            self._double(values)

    def _wire(self, values: Floats) -> Bytes:
        """Where the encoded values stand: the values themselves if they are plain, else a buffer of their own."""
        if self._codec.is_plain:
            return values.view(np.uint8)
        return self._own[: self._codec.wire_bytes(values.size)]

    def _double(self, values: Floats) -> None:
        rank, codec = self._comm.rank, self._codec
        wire = self._wire(values)
        received = self._received[: wire.size]
        for distance in self._distances:
            if not codec.is_plain:
                codec.encode(values, wire)
            self._comm.exchange(wire, received, rank ^ distance)
            codec.add(values, received)

    def _halve_and_double(self, values: Floats) -> None:
        rank, codec = self._comm.rank, self._codec
        wire = self._wire(values)
        whole = slice(0, values.size)
        trail = []
        for distance in self._distances:
            kept, given = _halves(whole, upper=bool(rank & distance))
            if not codec.is_plain:
                codec.encode(values[whole], wire[self._bytes(whole)])
            received = self._received[self._bytes(kept)]
            self._comm.exchange(wire[self._bytes(given)], received, rank ^ distance)
            codec.add(values[kept], received)
            trail.append((distance, kept, given))
            whole = kept
        if not codec.is_plain:
            codec.encode(values[whole], wire[self._bytes(whole)])
        for distance, kept, given in reversed(trail):
            self._comm.exchange(wire[self._bytes(kept)], wire[self._bytes(given)], rank ^ distance)
        if not codec.is_plain:
            codec.decode(wire, values)

    def _bytes(self, span: slice) -> slice:
        """Where values [start, stop), whole blocks, stand on the wire."""
        return slice(self._codec.wire_bytes(span.start), self._codec.wire_bytes(span.stop))


def _halves(whole: slice, upper: bool) -> tuple[slice, slice]:
    """-> (the half that this rank keeps, the half that it gives away), cut between blocks."""
    n_blocks = (whole.stop - whole.start) // BLOCK
    middle = whole.start + n_blocks // 2 * BLOCK
    low, high = slice(whole.start, middle), slice(middle, whole.stop)
    return (high, low) if upper else (low, high)
