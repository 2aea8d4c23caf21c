"""The clocks of the ranks against the root's, from messages there and back.

Half of the shortest round trip bounds the error. Two readings, before and after, give the drift between them, since
the clocks of two computers part by some microseconds a second. Nothing is sent while steps run.
"""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dllama_py.transport.comm import Comm

N_TRIPS = 60


@dataclass(frozen=True, slots=True)
class Reading:
    """A rank's clock showed `offset_ns` more than the root's when the root's showed `at_ns`."""

    offset_ns: int
    at_ns: int
    round_trip_ns: int


ROOT = Reading(0, 0, 0)


def read_clocks(comm: Comm) -> list[Reading]:
    """All ranks call it together. -> at the root a reading of every rank, elsewhere nothing."""
    word = np.zeros(1, np.int64)
    if comm.rank != 0:
        for _ in range(N_TRIPS):
            comm.recv(word, 0)
            word[0] = time.perf_counter_ns()
            comm.send(word, 0)
        return []
    return [ROOT, *(_read(comm, rank, word) for rank in range(1, comm.size))]


def _read(comm: Comm, rank: int, word: NDArray[np.int64]) -> Reading:
    trips = []
    for _ in range(N_TRIPS):
        sent_ns = time.perf_counter_ns()
        comm.send(word, rank)
        comm.recv(word, rank)
        trips.append(reading(sent_ns, int(word[0]), time.perf_counter_ns()))
    return min(trips, key=lambda trip: trip.round_trip_ns)


def reading(sent_ns: int, theirs_ns: int, back_ns: int) -> Reading:
    """Of one trip, as if both ways took equally long."""
    middle = (sent_ns + back_ns) // 2
    return Reading(theirs_ns - middle, middle, back_ns - sent_ns)


def on_root_clock(stamps: NDArray[np.int64], before: Reading, after: Reading) -> NDArray[np.int64]:
    """A rank's stamps as the root's clock would have shown them, the drift between both readings taken out."""
    span_ns = after.at_ns - before.at_ns
    drift = (after.offset_ns - before.offset_ns) / span_ns if span_ns else 0.0
    shown_ns = stamps - before.offset_ns
    since_ns = (shown_ns - before.at_ns) / (1 + drift)
    corrected: NDArray[np.int64] = shown_ns - np.rint(since_ns * drift).astype(np.int64)
    return corrected
