"""All ranks together: each measures itself, all pairs their links, and the root hears of it.

Of stages on the same hosts with as many threads the first measures for all of them. Unlike stages of one host take
turns, as they do in decoding one sequence; then all work at once, as they do in a prompt. It takes less than a second,
once the kernels are loaded.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dllama_py.blocks import FloatType
from dllama_py.kernels.team import Team
from dllama_py.planning.probe import Probe, Rates
from dllama_py.planning.probe_products import Subject
from dllama_py.planning.speeds import FEW_ROWS, PROBE_ROWS, KindSpeed, RankSpeed
from dllama_py.planning.wishes import Links
from dllama_py.progress import Progress
from dllama_py.transport.collectives import gather_json
from dllama_py.transport.comm import Comm
from dllama_py.transport.hosts import Host
from dllama_py.transport.link import measure_pairs
from dllama_py.transport.readiness import wait_for_kernels

LOOPS = 20_000
STEP_LOOPS = 8_000  # of Python that take as long as a stage does in a step beside its layers


@dataclass(frozen=True, slots=True)
class Measured:
    """At the root; other ranks get no speeds."""

    speeds: tuple[RankSpeed, ...]
    links: Links


def measure(comm: Comm, subject: Subject, n_stages: int, team: Team, on_progress: Progress) -> Measured:
    """Called by all ranks at once, with the same model; kernels that are not compiled yet are compiled first."""
    first = alike(comm.hosts, _threads_of_all(comm, team.n_threads), n_stages)
    is_first = first[comm.rank] == comm.rank
    probe = Probe(subject, team, on_progress, for_all=is_first)
    wait_for_kernels(comm, on_progress)
    turns = turns_of(comm.hosts, n_stages, first)
    speed = None
    for turn in range(max(turns) + 1):
        comm.barrier()
        if is_first and turn == turns[comm.rank]:
            speed = rank_speed(probe.one_row(), probe.few_rows(), probe.many_rows(), _python_s() * STEP_LOOPS / LOOPS)
            speed = replace(speed, wake_s=probe.waking_s(1 - 1 / n_stages))
    comm.barrier()
    busy = probe.busy_macs_per_s() if comm.hosts.count(comm.hosts[comm.rank]) > 1 else {}
    comm.barrier()
    links = measure_pairs(comm)
    return Measured(joined(gather_json(comm, _as_json(speed, busy)), first if comm.rank == 0 else ()), links)


def alike(hosts: Sequence[Host], n_threads: Sequence[int], n_stages: int) -> list[int]:
    """Of every rank: the one in the same place of the first stage on such hosts with so many threads."""
    width = len(hosts) // n_stages
    stages = [tuple(zip(hosts, n_threads, strict=True))[start : start + width] for start in range(0, len(hosts), width)]
    return [stages.index(stages[rank // width]) * width + rank % width for rank in range(len(hosts))]


def turns_of(hosts: Sequence[Host], n_stages: int, first: Sequence[int]) -> list[int]:
    """Of every rank: those of a stage measure at once, the stages on one host that are not alike (`first`) one after
    the other."""
    width = len(hosts) // n_stages
    stages = [set(hosts[start : start + width]) for start in range(0, len(hosts), width)]
    measuring = sorted({rank // width for rank in first})
    return [
        sum(hosts[rank] in stages[before] for before in measuring if before < first[rank] // width)
        for rank in range(len(hosts))
    ]


def rank_speed(one_row: Rates, few_per_s: Mapping[FloatType, float], many_rows: Rates, step_s: float) -> RankSpeed:
    """In the terms that plans are made in. `few_per_s`: weights that FEW_ROWS rows are multiplied with in a second."""
    kinds = {
        kind: KindSpeed(bytes_per_s, PROBE_ROWS * many_rows.weights_per_s[kind], FEW_ROWS * few_per_s[kind])
        for kind, bytes_per_s in one_row.bytes_per_s.items()
    }
    further_s = max(many_rows.layer_s - one_row.layer_s, 0.0) / (PROBE_ROWS - 1)
    return RankSpeed(kinds, one_row.layer_s, further_s, step_s)


def joined(told: Sequence[dict[str, Any]], first: Sequence[int]) -> tuple[RankSpeed, ...]:
    """Each rank's speed by what all have told: that of the one that measured for it. How crowded it is there, all that
    are alike know best together: for a moment one may have a core for itself."""
    speeds = []
    for measuring in first:
        speed = RankSpeed.from_json(told[measuring]["speed"])
        busy = [told[rank]["busy"] for rank in range(len(told)) if first[rank] == measuring]
        speeds.append(replace(speed, crowd=_crowd(speed, busy)))
    return tuple(speeds)


def _crowd(alone: RankSpeed, busy: Sequence[dict[str, float]]) -> float:
    """How many times as long products of many rows take now, of all types on average; 1 where nothing was measured."""
    ratios = [
        alone.kinds[FloatType.named(label)].macs_per_s * len(busy) / sum(each[label] for each in busy)
        for label in busy[0]
    ]
    return max(sum(ratios) / max(len(ratios), 1), 1.0)


def _as_json(speed: RankSpeed | None, busy: Mapping[FloatType, float]) -> dict[str, Any]:
    return {
        "speed": speed.as_json() if speed else None,
        "busy": {kind.label: round(macs_per_s) for kind, macs_per_s in busy.items()},
    }


def _python_s() -> float:
    """Of LOOPS loops."""
    started = time.perf_counter()
    count = 0
    for number in range(LOOPS):
        count += number
    return time.perf_counter() - started


def _threads_of_all(comm: Comm, n_threads: int) -> list[int]:
    threads = np.zeros(comm.size, np.int64)
    parts = [threads[rank : rank + 1] for rank in range(comm.size)]
    comm.gather(np.array([n_threads]), parts if comm.rank == 0 else None)
    comm.broadcast_idle(threads)
    return [int(n) for n in threads]
