"""All ranks together: each measures itself, all pairs their links, and the root hears of it.

Stages of one host take turns, as they do in decoding one sequence, and then work at once, as they do in a prompt. It
takes less than a second, once the kernels are compiled.
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dllama_py.kernels.team import Team
from dllama_py.planning.probe import Probe, Rates
from dllama_py.planning.probe_products import Subject
from dllama_py.planning.speeds import PROBE_ROWS, KindSpeed, RankSpeed
from dllama_py.planning.wishes import Links
from dllama_py.progress import Progress
from dllama_py.transport.comm import Comm
from dllama_py.transport.link import measure_pairs
from dllama_py.transport.readiness import wait_for_kernels

FACTS_BYTES = 4096  # of a rank's speeds as JSON: some forty types at most
LOOPS = 20_000
STEP_LOOPS = 8_000  # of Python that take as long as a stage does in a step beside its layers


@dataclass(frozen=True, slots=True)
class Measured:
    """At the root; other ranks get no speeds."""

    speeds: tuple[RankSpeed, ...]
    links: Links


def measure(comm: Comm, subject: Subject, n_stages: int, team: Team, on_progress: Progress) -> Measured:
    """Called by all ranks at once, with the same model; kernels that are not compiled yet are compiled first."""
    probe = Probe(subject, team, on_progress)
    wait_for_kernels(comm, on_progress)
    turns = turns_of(comm.hosts, n_stages)
    speed = None
    for turn in range(max(turns) + 1):
        comm.barrier()
        if turn == turns[comm.rank]:
            speed = rank_speed(probe.one_row(), probe.many_rows(), _python_s() * STEP_LOOPS / LOOPS)
            speed = replace(speed, wake_s=probe.waking_s(1 - 1 / n_stages))
    assert speed is not None
    comm.barrier()
    if comm.hosts.count(comm.hosts[comm.rank]) > 1:
        speed = replace(speed, crowd=_crowd(speed, probe.many_rows()))
    comm.barrier()
    links = measure_pairs(comm)
    return Measured(_gathered(comm, speed), links)


def turns_of(hosts: Sequence[str], n_stages: int) -> list[int]:
    """Of every rank: those of a stage measure at once, the stages on one host one after the other."""
    width = len(hosts) // n_stages
    stages = [set(hosts[rank // width * width :][:width]) for rank in range(len(hosts))]
    return [
        sum(hosts[rank] in stages[before] for before in range(0, rank // width * width, width))
        for rank in range(len(hosts))
    ]


def rank_speed(one_row: Rates, many_rows: Rates, step_s: float) -> RankSpeed:
    """In the terms that plans are made in."""
    kinds = {
        kind: KindSpeed(bytes_per_s, PROBE_ROWS * many_rows.weights_per_s[kind])
        for kind, bytes_per_s in one_row.bytes_per_s.items()
    }
    further_s = max(many_rows.layer_s - one_row.layer_s, 0.0) / (PROBE_ROWS - 1)
    return RankSpeed(kinds, one_row.layer_s, further_s, step_s)


def _crowd(alone: RankSpeed, together: Rates) -> float:
    """How many times as long products of many rows take now, of all types on average."""
    ratios = [speed.macs_per_s / (PROBE_ROWS * together.weights_per_s[kind]) for kind, speed in alone.kinds.items()]
    return max(sum(ratios) / len(ratios), 1.0)


def _python_s() -> float:
    """Of LOOPS loops."""
    started = time.perf_counter()
    count = 0
    for number in range(LOOPS):
        count += number
    return time.perf_counter() - started


def _gathered(comm: Comm, speed: RankSpeed) -> tuple[RankSpeed, ...]:
    """Every rank's at the root, nothing elsewhere."""
    own = np.frombuffer(json.dumps(speed.as_json()).encode().ljust(FACTS_BYTES), np.uint8)
    parts = [np.zeros(FACTS_BYTES, np.uint8) for _ in range(comm.size)] if comm.rank == 0 else None
    comm.gather(own, parts)
    return tuple(RankSpeed.from_json(json.loads(part.tobytes())) for part in parts or [])
