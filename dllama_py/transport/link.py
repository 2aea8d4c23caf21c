"""How fast ranks talk to each other: the delay of a short exchange and the rate of long ones, as in an all-reduce.

Takes a third of a second over 100 Mbit/s and less over faster links.
"""

import time
from collections.abc import Callable, Sequence

import numpy as np

from dllama_py.cost_model import Link, Network
from dllama_py.transport.comm import Comm

SHORT_BYTES, SHORT_TRIES = 64, 100
LONG_BYTES, LONG_TRIES = 1 << 16, 9
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


def slowest(links: Sequence[Sequence[Link]]) -> Network:
    """A distance is as slow as its slowest pair, since the next exchange needs all of them."""
    return Network(
        tuple(Link(max(each.latency_s for each in row), min(each.bytes_per_s for each in row)) for row in links)
    )


def _measure(comm: Comm, partner: int, clock: Clock) -> tuple[float, float]:
    """-> (latency in seconds, bytes per second)."""
    short_s = _exchange_seconds(comm, partner, SHORT_BYTES, SHORT_TRIES, clock)
    long_s = _exchange_seconds(comm, partner, LONG_BYTES, LONG_TRIES, clock)
    return short_s, (LONG_BYTES - SHORT_BYTES) / max(long_s - short_s, 1e-9)


def _exchange_seconds(comm: Comm, partner: int, n_bytes: int, tries: int, clock: Clock) -> float:
    """Of the median exchange of so many bytes in both directions."""
    send, receive = np.zeros(n_bytes, np.uint8), np.empty(n_bytes, np.uint8)
    stamps = [clock()]
    for _ in range(WARM_TRIES + tries):
        comm.exchange(send, receive, partner)
        stamps.append(clock())
    return float(np.median(np.diff(stamps)[WARM_TRIES:]))
