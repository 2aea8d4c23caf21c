"""How fast ranks talk to each other: the delay of a short exchange and the rate of long ones, as in an all-reduce.

Takes a third of a second over 100 Mbit/s and less over faster links.
"""

import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from dllama_py.cost_model import Link, Network
from dllama_py.transport.comm import Comm

SHORT_BYTES, SHORT_TRIES = 64, 100
LONG_BYTES, LONG_TRIES = 1 << 16, 9
FEW_SHORT_TRIES, FEW_LONG_TRIES = 20, 3  # where there are many pairs
WARM_TRIES = 3  # connections are opened by the first message

Clock = Callable[[], float]  # seconds


def measure_network(comm: Comm, clock: Clock = time.perf_counter) -> Network:
    """All ranks together; the same on every rank. N must be a power of two above 1."""
    return slowest(measure_links(comm, clock))


def measure_links(comm: Comm, clock: Clock = time.perf_counter) -> list[list[Link]]:
    """[k][rank]: from each rank to the one 2^k apart, all pairs of a distance at once; all ranks get all of it."""
    if comm.size & (comm.size - 1):
        raise ValueError(f"a tree over {comm.size} ranks; only powers of two are whole trees")
    partners = [comm.rank ^ 1 << k for k in range(comm.size.bit_length() - 1)]
    own = np.array([_measure(comm, partner, clock) for partner in partners])  # [K, 2]
    every = np.empty((comm.size, *own.shape))
    comm.gather(own, list(every) if comm.rank == 0 else None)
    comm.broadcast_idle(every)
    return [[Link(*link) for link in every[:, k].tolist()] for k in range(len(partners))]


def measure_pairs(comm: Comm, clock: Clock = time.perf_counter) -> list[list[Link]]:
    """[rank][other]: between all pairs, of any number of ranks; all of them get all of it. A rank is near itself."""
    own = np.zeros((comm.size, 2))
    for partner in opponents(comm.rank, comm.size):
        if partner != comm.rank:
            own[partner] = _measure(comm, partner, clock, FEW_SHORT_TRIES, FEW_LONG_TRIES)
    every = np.empty((comm.size, comm.size, 2))
    comm.gather(own, list(every) if comm.rank == 0 else None)
    comm.broadcast_idle(every)
    here = Link(0.0, math.inf)
    return [
        [here if rank == other else Link(*every[rank, other].tolist()) for other in range(comm.size)]
        for rank in range(comm.size)
    ]


def slowest(links: Sequence[Sequence[Link]]) -> Network:
    """A distance is as slow as its slowest pair, since the next exchange needs all of them."""
    return Network(
        tuple(Link(max(each.latency_s for each in row), min(each.bytes_per_s for each in row)) for row in links)
    )


def opponents(rank: int, n_ranks: int) -> list[int]:
    """Whom a rank meets in each round of a tournament in which all meet all; itself where it has to sit out.

    The circle method: in round r those meet whose numbers add up to r around a circle of n places, n - 1 where n is
    even; then the last rank meets the one who would meet itself.
    """
    places = n_ranks - 1 + n_ranks % 2
    if rank == places:
        return [round_ * (places + 1) // 2 % places for round_ in range(places)]
    others = [(round_ - rank) % places for round_ in range(places)]
    return [n_ranks - 1 if other == rank and n_ranks > places else other for other in others]


def _measure(
    comm: Comm, partner: int, clock: Clock, short_tries: int = SHORT_TRIES, long_tries: int = LONG_TRIES
) -> tuple[float, float]:
    """-> (latency in seconds, bytes per second)."""
    short_s = _exchange_seconds(comm, partner, SHORT_BYTES, short_tries, clock)
    long_s = _exchange_seconds(comm, partner, LONG_BYTES, long_tries, clock)
    return short_s, (LONG_BYTES - SHORT_BYTES) / max(long_s - short_s, 1e-9)


def _exchange_seconds(comm: Comm, partner: int, n_bytes: int, tries: int, clock: Clock) -> float:
    """Of the median exchange of so many bytes in both directions."""
    send, receive = np.zeros(n_bytes, np.uint8), np.empty(n_bytes, np.uint8)
    stamps = [clock()]
    for _ in range(WARM_TRIES + tries):
        comm.exchange(send, receive, partner)
        stamps.append(clock())
    return float(np.median(np.diff(stamps)[WARM_TRIES:]))
