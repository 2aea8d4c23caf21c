"""What messages between stages have taken, as their receivers saw it, brought together at the root.

A message says when it left by its sender's clock, so the clocks of all ranks are read with every report; what lies
between two reports is corrected by both readings.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dllama_py.profiling.clock import Reading, read_clocks
from dllama_py.stamps import NS
from dllama_py.transport.comm import Comm
from dllama_py.transport.hop import HopTraffic


@dataclass(frozen=True, slots=True)
class HopTimes:
    """Of the messages of a decoded token from one rank to another: mean bytes, and seconds from leaving to arrival."""

    sender: int
    receiver: int
    n_bytes: float
    seconds: float


@dataclass(frozen=True, slots=True)
class HopTotals:
    """So far, int64 [N, 3]: of each rank as a receiver the timed messages, their bytes, nanoseconds by two clocks."""

    totals: NDArray[np.int64]
    clocks: Sequence[Reading]

    def since(self, earlier: "HopTotals", ways: Sequence[tuple[int, int]]) -> list[HopTimes]:
        """Of each way (sender, receiver) on which messages were timed meanwhile."""
        found = []
        for sender, receiver in ways:
            n, n_bytes, transfer_ns = (self.totals[receiver] - earlier.totals[receiver]).tolist()
            if n:
                apart_ns = _mean_offset_ns(earlier, self, receiver) - _mean_offset_ns(earlier, self, sender)
                found.append(HopTimes(sender, receiver, n_bytes / n, max(transfer_ns / n - apart_ns, 0.0) * NS))
        return found


def _mean_offset_ns(earlier: HopTotals, later: HopTotals, rank: int) -> float:
    return (earlier.clocks[rank].offset_ns + later.clocks[rank].offset_ns) / 2


def tell_hops(world: Comm, own: HopTraffic) -> HopTotals:
    """All ranks call it together. -> at the root those of all, elsewhere nothing that counts."""
    words = np.array([own.n_timed, own.timed_bytes, own.transfer_ns], np.int64)
    totals = np.empty((world.size, len(words)), np.int64)
    world.gather(words, list(totals) if world.rank == 0 else None)
    return HopTotals(totals, read_clocks(world))
