"""What a recorder keeps of the programs that ran: when each thread did what, and how much there was to do.

Floor 0: facts that compiled code fills and `profiling` reads, so that reading them needs no compiled code.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

NS = 1e-9  # seconds in a stamp's unit
UNCOUNTED = -1  # counter of an instruction that does the same in every run
UNLIMITED = 1 << 62


class Role(StrEnum):
    """What an instruction is for."""

    WEIGHTS = "weights"  # products with weights
    ATTENTION = "attention"
    EXCHANGE = "exchange"  # everything between a rank's own sum and that of all ranks
    ARRIVING = "arriving"  # rows come out of a message of the stage before
    LEAVING = "leaving"  # rows go into one for the next stage
    MEMORY = "memory"  # the measurement of the memory's speed
    SMALL = "small"  # all else: norms, RoPE, activations, sums


@dataclass(frozen=True, slots=True)
class Work:
    """Of one instruction, in a run where its counter stands at n: it reads `part_bytes` min(n, most_parts) times, does
    `macs` multiplications n times and sends `sent_bytes` n times. n counts rows; for attention the positions they see.
    """

    kernel: str
    role: Role
    counter: int = UNCOUNTED
    part_bytes: int = 0
    most_parts: int = UNLIMITED
    macs: int = 0
    sent_bytes: int = 0

    def count(self, counts: Sequence[int]) -> int:
        """n, where the counters of the program stood at `counts`."""
        return 1 if self.counter == UNCOUNTED else counts[self.counter]

    def bytes_read(self, counts: Sequence[int]) -> int:
        """Of weights, of the cache, or of the memory whose speed is measured."""
        return self.part_bytes * min(self.count(counts), self.most_parts)

    def multiplications(self, counts: Sequence[int]) -> int:
        """Of weights with activations, of queries with keys, of attention's weights with values."""
        return self.macs * self.count(counts)

    def bytes_sent(self, counts: Sequence[int]) -> int:
        """To another rank."""
        return self.sent_bytes * self.count(counts)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a program: its number among the recorder's programs, what its counters stood at, the stamps.

    `stamps`: int64 [threads, instructions, 2], beginning and end, nanoseconds of a monotonic clock.
    """

    program: int
    counts: tuple[int, ...]
    stamps: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A message between stages, at its receiver: of the step with that number, 1 the first. `sent_ns` by the sender's
    clock; `asked_ns`, from when on it was waited for, by the receiver's, `arrived_ns` itself where it was there before.
    """

    source: int
    step: int
    n_bytes: int
    sent_ns: int
    asked_ns: int
    arrived_ns: int


@dataclass(slots=True)
class Recording:
    """Grows while programs run. Programs may go; what their instructions had to do stays."""

    programs: list[Sequence[Work]] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    arrivals: list[Arrival] = field(default_factory=list)
