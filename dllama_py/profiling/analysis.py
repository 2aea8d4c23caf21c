"""From stamps to times: what each node did in a step, each all-reduce, each kind of kernel.

An all-reduce is a run of instructions whose role is to exchange; it stands at the same place in every rank's program.
A node arrives when it begins the first of them, and is through when it has ended the last. Until the last node has
arrived the others wait; what then follows is transfer. All times are seconds unless they are named stamps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dllama_py.profiling.timeline import RankTimeline, Span
from dllama_py.stamps import Role, Run, Work

Ints = NDArray[np.int64]
S = 1e-9
BARRIERS = "barriers"


@dataclass(frozen=True, slots=True)
class Collective:
    """One all-reduce. `arrived_ns`, `through_ns`, `sent_bytes`: of each rank; `number`: within its step."""

    number: int
    sent_bytes: tuple[int, ...]
    arrived_ns: tuple[int, ...]
    through_ns: tuple[int, ...]

    @property
    def order(self) -> tuple[int, ...]:
        """Ranks as they arrived."""
        return tuple(sorted(range(len(self.arrived_ns)), key=self.arrived_ns.__getitem__))

    @property
    def last(self) -> int:
        """The rank for which the others waited."""
        return self.order[-1]

    @property
    def lead_s(self) -> float:
        """How much sooner all would have been there but for the last."""
        return (self.arrived_ns[self.last] - self.arrived_ns[self.order[-2]]) * S

    @property
    def waits_s(self) -> tuple[float, ...]:
        """Of each rank, until the last arrived."""
        return tuple((max(self.arrived_ns) - own) * S for own in self.arrived_ns)

    @property
    def transfers_s(self) -> tuple[float, ...]:
        """Of each rank, from then on."""
        return tuple(max(own - max(self.arrived_ns), 0) * S for own in self.through_ns)


@dataclass(frozen=True, slots=True)
class NodeTimes:
    """Of one node in one step. `outside_s`: between programs, where the root samples and all tell each other."""

    compute_s: float
    wait_s: float
    transfer_s: float
    outside_s: float


@dataclass(frozen=True, slots=True)
class StepTimes:
    """One step, from the beginning of its first program to that of the next step's."""

    phase: str
    n_rows: int
    seconds: float
    nodes: tuple[NodeTimes, ...]
    collectives: tuple[Collective, ...]


def step_times(ranks: Sequence[RankTimeline], spans: Sequence[Span]) -> list[StepTimes]:
    """Of every span; the last one ends with its last program."""
    borders = [first_stamp(ranks, span) for span in spans]
    borders.append(int(ranks[0].runs[spans[-1].end - 1].stamps.max()))
    return [
        _step(ranks, span, (following - begun) * S)
        for span, begun, following in zip(spans, borders[:-1], borders[1:], strict=True)
    ]


def first_stamp(ranks: Sequence[RankTimeline], span: Span) -> int:
    """When the root began a step."""
    return int(ranks[0].runs[span.first].stamps.min())


def _step(ranks: Sequence[RankTimeline], span: Span, seconds: float) -> StepTimes:
    collectives = tuple(_collectives(ranks, span))
    in_programs_s = [sum(program_s(run) for run in rank.runs[span.first : span.end]) for rank in ranks]
    nodes = []
    for number, whole_s in enumerate(in_programs_s):
        wait_s = sum(each.waits_s[number] for each in collectives)
        transfer_s = sum(each.transfers_s[number] for each in collectives)
        nodes.append(NodeTimes(whole_s - wait_s - transfer_s, wait_s, transfer_s, max(seconds - whole_s, 0.0)))
    return StepTimes(span.phase, span.n_rows, seconds, tuple(nodes), collectives)


def program_s(run: Run) -> float:
    """From the first beginning to the last end."""
    return float(run.stamps.max() - run.stamps.min()) * S


def _collectives(ranks: Sequence[RankTimeline], span: Span) -> Iterator[Collective]:
    number = 0
    for runs in zip(*(rank.runs[span.first : span.end] for rank in ranks), strict=True):
        for places in exchanges(ranks[0].works(runs[0])):
            yield Collective(
                number,
                tuple(
                    sum(work.bytes_sent(run.counts) for work in rank.works(run)[places])
                    for rank, run in zip(ranks, runs, strict=True)
                ),
                tuple(int(run.stamps[0, places.start, 0]) for run in runs),
                tuple(int(run.stamps[:, places.stop - 1, 1].max()) for run in runs),
            )
            number += 1


def exchanges(works: Sequence[Work]) -> Iterator[slice]:
    """Where in a program its all-reduces stand."""
    start = None
    for number, work in enumerate([*works, None]):
        if work is not None and work.role is Role.EXCHANGE:
            start = number if start is None else start
        elif start is not None:
            yield slice(start, number)
            start = None


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """One kernel on one node over all steps of a phase. `busy_s`: mean over the threads."""

    kernel: str
    role: Role
    n_calls: int
    busy_s: float
    n_bytes: int
    n_macs: int


def kernel_times(rank: RankTimeline, spans: Sequence[Span]) -> list[KernelTimes]:
    """The longest first. The last entry, BARRIERS, is how long threads waited for each other, exchanges apart."""
    found: dict[str, KernelTimes] = {}
    idle_s = 0.0
    for run in (run for span in spans for run in rank.runs[span.first : span.end]):
        took = (run.stamps[..., 1] - run.stamps[..., 0]).mean(axis=0) * S  # [instructions]
        for work, busy_s in zip(rank.works(run), took.tolist(), strict=True):
            if work.role is not Role.EXCHANGE:
                found[work.kernel] = _added(found.get(work.kernel), work, run, busy_s)
        idle_s += program_s(run) - float(took.sum()) - _exchange_idle_s(rank.works(run), run.stamps)
    longest_first = sorted(found.values(), key=lambda times: -times.busy_s)
    return [*longest_first, KernelTimes(BARRIERS, Role.SMALL, 0, max(idle_s, 0.0), 0, 0)]


def _added(so_far: KernelTimes | None, work: Work, run: Run, busy_s: float) -> KernelTimes:
    before = so_far or KernelTimes(work.kernel, work.role, 0, 0.0, 0, 0)
    return KernelTimes(
        work.kernel,
        work.role,
        before.n_calls + 1,
        before.busy_s + busy_s,
        before.n_bytes + work.bytes_read(run.counts),
        before.n_macs + work.multiplications(run.counts),
    )


def _exchange_idle_s(works: Sequence[Work], stamps: Ints) -> float:
    """What of the exchanges' time the mean over the threads leaves out: only one of them talks."""
    return sum(
        float(stamps[:, places.stop - 1, 1].max() - stamps[0, places.start, 0]) * S
        - float((stamps[:, places, 1] - stamps[:, places, 0]).mean(axis=0).sum()) * S
        for places in exchanges(works)
    )


def memory_speeds(ranks: Sequence[RankTimeline]) -> list[float]:
    """Bytes per second at which each rank read memory, all at once; the best try of each."""
    return [
        max(
            (
                work.bytes_read(run.counts) / ((run.stamps[:, number, 1] - run.stamps[:, number, 0]).mean() * S)
                for run in rank.runs
                for number, work in enumerate(rank.works(run))
                if work.role is Role.MEMORY
            ),
            default=0.0,
        )
        for rank in ranks
    ]
