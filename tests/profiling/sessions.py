"""Two ranks whose stamps are written by hand: one decode step of a product and an all-reduce, then one more."""

import numpy as np

from dllama_py.profiling.timeline import RankTimeline, Span
from dllama_py.stamps import Role, Run, Work
from dllama_py.transport.hosts import Host

US = 1000  # nanoseconds
PRODUCT = Work("matmul_q40", Role.WEIGHTS, counter=0, part_bytes=1_000_000, most_parts=1, macs=2_000_000)
SWAP = Work("swap", Role.EXCHANGE, counter=0, sent_bytes=2304)
SUM = Work("add_received", Role.EXCHANGE)
NORM = Work("norm", Role.SMALL)
PROGRAM = (PRODUCT, SWAP, SUM, NORM)


def run(*threads: list[tuple[int, int]], rows: int = 1, program: int = 0) -> Run:
    """Beginning and end of each instruction in microseconds, a list a thread."""
    return Run(program, (rows,), np.array(threads, np.int64) * US)


def two_ranks() -> tuple[list[RankTimeline], list[Span]]:
    """Rank 1 is 300 us late for the first all-reduce; rank 0, of two threads, 20 us for the second."""
    first = [
        run([(0, 500), (500, 900), (900, 950), (950, 1000)], [(0, 400), (500, 500), (900, 940), (950, 960)]),
        run(
            [(2000, 2500), (2520, 2600), (2600, 2650), (2650, 2700)],
            [(2000, 2520), (2520, 2520), (2600, 2650), (2650, 2700)],
        ),
    ]
    second = [
        run([(10, 800), (800, 890), (890, 930), (930, 990)]),
        run([(2000, 2400), (2500, 2610), (2610, 2650), (2650, 2710)]),
    ]
    spans = [Span("decode", 1, 0), Span("decode", 1, 1)]
    return [
        RankTimeline(Host.named("a"), 2, [PROGRAM], first),
        RankTimeline(Host.named("b"), 1, [PROGRAM], second),
    ], spans
