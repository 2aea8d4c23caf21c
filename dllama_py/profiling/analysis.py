"""From stamps to times: what each node did in a step, each all-reduce, each kind of kernel.

An all-reduce is a run of instructions whose role is to exchange; it stands at the same place in the programs of all
ranks that share layers. A node arrives when it begins the first of them, and is through when it has ended the last.
Until the last node has arrived the others wait; what then follows is transfer. Between the stages of a pipeline a node
waits until the message for it leaves, and its way is transfer (hop_times.py). All times are seconds unless they are
named stamps.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dllama_py.profiling.hop_times import Hop, Pauses, hops_of, pauses_of
from dllama_py.profiling.timeline import RankTimeline, Span
from dllama_py.stamps import NS, Role, Run, Work

Ints = NDArray[np.int64]
BARRIERS = "barriers"


@dataclass(frozen=True, slots=True)
class Collective:
    """One all-reduce among `ranks`. `arrived_ns`, `through_ns`, `sent_bytes`: of each of them; `number`: within its
    step."""

    number: int
    ranks: range
    sent_bytes: tuple[int, ...]
    arrived_ns: tuple[int, ...]
    through_ns: tuple[int, ...]

    @property
    def order(self) -> tuple[int, ...]:
        """Ranks as they arrived."""
        return tuple(sorted(self.ranks, key=lambda rank: self.arrived_ns[rank - self.ranks.start]))

    @property
    def last(self) -> int:
        """The rank for which the others waited."""
        return self.order[-1]

    @property
    def lead_s(self) -> float:
        """How much sooner all would have been there but for the last."""
        *_, before, last = sorted(self.arrived_ns)
        return (last - before) * NS

    @property
    def waits_s(self) -> tuple[float, ...]:
        """Of each rank, until the last arrived; where clocks differ by more than that, until it was through itself."""
        last = max(self.arrived_ns)
        return tuple(
            (min(last, through) - arrived) * NS
            for arrived, through in zip(self.arrived_ns, self.through_ns, strict=True)
        )

    @property
    def transfers_s(self) -> tuple[float, ...]:
        """Of each rank, from then on."""
        return tuple(max(own - max(self.arrived_ns), 0) * NS for own in self.through_ns)

    def pauses(self, rank: int) -> Pauses:
        """Of one of its ranks."""
        own = rank - self.ranks.start
        return Pauses(self.waits_s[own], self.transfers_s[own])


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
    hops: tuple[Hop, ...]


def step_times(ranks: Sequence[RankTimeline], spans: Sequence[Span], stages: Sequence[range]) -> list[StepTimes]:
    """Of every span; the last one ends with what the root computes or is answered last. `stages`: ranks that share
    layers, in the order of these; all of them where there is one.
    """
    borders = [first_stamp(ranks, span) for span in spans]
    borders.append(_last_stamp(ranks, spans[-1]))
    return [
        _step(ranks, span, stages, borders[0], (following - begun) * NS)
        for span, begun, following in zip(spans, borders[:-1], borders[1:], strict=True)
    ]


def first_stamp(ranks: Sequence[RankTimeline], span: Span) -> int:
    """When the root began a step."""
    return int(ranks[0].runs_of(span)[0].stamps.min())


def _last_stamp(ranks: Sequence[RankTimeline], span: Span) -> int:
    answered = [hop.arrived_ns for hop in hops_of(ranks, span, 0) if hop.receiver == 0]
    return max(int(ranks[0].runs_of(span)[-1].stamps.max()), *answered, 0)


def _step(
    ranks: Sequence[RankTimeline], span: Span, stages: Sequence[range], begun_ns: int, seconds: float
) -> StepTimes:
    collectives = tuple(each for stage in stages if len(stage) > 1 for each in _collectives(ranks, stage, span))
    hops = tuple(hops_of(ranks, span, begun_ns))
    between = pauses_of(ranks, span, stages, hops, begun_ns)
    nodes = []
    for number, rank in enumerate(ranks):
        in_programs_s = sum(program_s(run) for run in rank.runs_of(span))
        inside = [each.pauses(number) for each in collectives if number in each.ranks]
        in_sums_s = sum(each.wait_s + each.transfer_s for each in inside)
        wait_s = between[number].wait_s + sum(each.wait_s for each in inside)
        transfer_s = between[number].transfer_s + sum(each.transfer_s for each in inside)
        compute_s = in_programs_s - in_sums_s
        nodes.append(NodeTimes(compute_s, wait_s, transfer_s, max(seconds - compute_s - wait_s - transfer_s, 0.0)))
    return StepTimes(span.phase, span.n_rows, seconds, tuple(nodes), collectives, hops)


def program_s(run: Run) -> float:
    """From the first beginning to the last end."""
    return float(run.stamps.max() - run.stamps.min()) * NS


def _collectives(ranks: Sequence[RankTimeline], stage: range, span: Span) -> Iterator[Collective]:
    number = 0
    sharing = [ranks[rank] for rank in stage]
    for runs in zip(*(_of_layers(rank, span) for rank in sharing), strict=True):
        for places in exchanges(sharing[0].works(runs[0])):
            yield Collective(
                number,
                stage,
                tuple(
                    sum(work.bytes_sent(run.counts) for work in rank.works(run)[places])
                    for rank, run in zip(sharing, runs, strict=True)
                ),
                tuple(int(run.stamps[0, places.start, 0]) for run in runs),
                tuple(int(run.stamps[:, places.stop - 1, 1].max()) for run in runs),
            )
            number += 1


def _of_layers(rank: RankTimeline, span: Span) -> list[Run]:
    """Without what brings rows and takes them away, which the first rank of a stage does alone."""
    return [run for run in rank.runs_of(span) if rank.works(run)[0].role not in (Role.ARRIVING, Role.LEAVING)]


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
    for run in (run for span in spans for run in rank.runs_of(span)):
        took = (run.stamps[..., 1] - run.stamps[..., 0]).mean(axis=0) * NS  # [instructions]
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
        float(stamps[:, places.stop - 1, 1].max() - stamps[0, places.start, 0]) * NS
        - float((stamps[:, places, 1] - stamps[:, places, 0]).mean(axis=0).sum()) * NS
        for places in exchanges(works)
    )


def memory_speeds(ranks: Sequence[RankTimeline]) -> list[float]:
    """Bytes per second at which each rank read memory, all at once; the best try of each."""
    return [
        max(
            (
                work.bytes_read(run.counts) / ((run.stamps[:, number, 1] - run.stamps[:, number, 0]).mean() * NS)
                for run in rank.runs
                for number, work in enumerate(rank.works(run))
                if work.role is Role.MEMORY
            ),
            default=0.0,
        )
        for rank in ranks
    ]
