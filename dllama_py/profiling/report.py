"""What a profile tells of any topology, as plain values: for JSON, and for the tables that are made from it."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median_low
from typing import Any

from dllama_py.profiling.analysis import Collective, NodeTimes, StepTimes, kernel_times, memory_speeds, step_times
from dllama_py.profiling.clock import Reading
from dllama_py.profiling.timeline import DECODE, RankTimeline, Span
from dllama_py.stamps import NS


@dataclass(frozen=True, slots=True)
class Session:
    """One measured run, brought together at the root. `stages`: ranks that share layers."""

    ranks: Sequence[RankTimeline]
    spans: Sequence[Span]
    stages: Sequence[range]
    clocks: Sequence[Reading]
    one_node_s: float | None = None  # a token on one node, if that was measured
    busy_cores: float = 0.0  # that other programs used on the busiest machine

    @property
    def decoding(self) -> list[Span]:
        return [span for span in self.spans if span.phase == DECODE]

    def phases(self) -> list[str]:
        """In the order in which they came."""
        return list(dict.fromkeys(span.phase for span in self.spans))


@dataclass(frozen=True, slots=True)
class Times:
    """`decoding`: the decode steps that have a following one, so that what lies between is known. `typical`: the one of
    median length, as an index of `steps`.
    """

    session: Session
    steps: Sequence[StepTimes]
    decoding: Sequence[StepTimes]
    typical: int

    @property
    def token_s(self) -> float:
        """From token to token."""
        return sum(step.seconds for step in self.decoding) / len(self.decoding)


def times_of(session: Session) -> Times:
    """What the stamps amount to."""
    steps = step_times(session.ranks, session.spans, session.stages)
    decoding = [step for step in steps[:-1] if step.phase == DECODE]
    middle = median_low([step.seconds for step in decoding])
    typical = next(number for number, step in enumerate(steps[:-1]) if step.phase == DECODE and step.seconds == middle)
    return Times(session, steps, decoding, typical)


def mean_times(steps: Sequence[StepTimes], rank: int) -> NodeTimes:
    """Of one node over the steps."""

    def mean(of: Callable[[NodeTimes], float]) -> float:
        return sum(of(step.nodes[rank]) for step in steps) / len(steps)

    return NodeTimes(
        mean(lambda node: node.compute_s),
        mean(lambda node: node.wait_s),
        mean(lambda node: node.transfer_s),
        mean(lambda node: node.outside_s),
    )


def facts(times: Times) -> dict[str, Any]:
    """Keys as documented in docs/profiling.md; times in milliseconds, rates per second."""
    session, steps = times.session, times.decoding
    return {
        "nodes": len(session.ranks),
        "threads": [rank.n_threads for rank in session.ranks],
        "hosts": [rank.host.name for rank in session.ranks],
        "decode_tok_s": 1 / times.token_s,
        "token_ms": 1000 * times.token_s,
        "per_token": [_milliseconds(mean_times(steps, rank)) for rank in range(len(session.ranks))],
        "steps": [_step(step) for step in times.steps],
        "collectives": [_collective(same) for same in zip(*(step.collectives for step in steps), strict=True)],
        "kernels": kernels(session),
        "busy_cores": session.busy_cores,
        "memory_gb_s": [speed / 1e9 for speed in memory_speeds(session.ranks)],
        "clocks": [
            {"offset_us": each.offset_ns / 1e3, "round_trip_us": each.round_trip_ns / 1e3} for each in session.clocks
        ],
    }


def _step(step: StepTimes) -> dict[str, Any]:
    nodes = [_milliseconds(node) for node in step.nodes]
    return {"phase": step.phase, "rows": step.n_rows, "ms": 1000 * step.seconds, "nodes": nodes}


def _milliseconds(times: NodeTimes) -> dict[str, float]:
    return {name.replace("_s", "_ms"): 1000 * seconds for name, seconds in asdict(times).items()}


def _collective(same: Sequence[Collective]) -> dict[str, Any]:
    """One place's all-reduces of all decode steps; lists by `ranks`."""
    first = same[0]
    places = range(len(first.ranks))
    orders = [each.order for each in same]
    return {
        "number": first.number,
        "ranks": list(first.ranks),
        "sent_bytes": list(first.sent_bytes),
        "ms": 1000 * sum((max(each.through_ns) - min(each.arrived_ns)) * NS for each in same) / len(same),
        "wait_ms": [1000 * sum(each.waits_s[place] for each in same) / len(same) for place in places],
        "transfer_ms": [1000 * sum(each.transfers_s[place] for each in same) / len(same) for place in places],
        "usual_order": list(Counter(orders).most_common(1)[0][0]),
        "times_last": [sum(each.last == rank for each in same) for rank in first.ranks],
    }


def kernels(session: Session) -> list[dict[str, Any]]:
    """Every kernel on every rank in every phase; rates while it runs, and per step."""
    memory = memory_speeds(session.ranks)
    found = []
    for phase in session.phases():
        spans = [span for span in session.spans if span.phase == phase]
        for rank, timeline in enumerate(session.ranks):
            for times in kernel_times(timeline, spans):
                busy_s = max(times.busy_s, 1e-12)
                found.append(
                    {
                        "phase": phase,
                        "rank": rank,
                        "kernel": times.kernel,
                        "calls": times.n_calls / len(spans),
                        "ms": 1000 * times.busy_s / len(spans),
                        "gb_s": times.n_bytes / busy_s / 1e9,
                        "of_memory": times.n_bytes / busy_s / memory[rank] if memory[rank] else None,
                        "gmac_s": times.n_macs / busy_s / 1e9,
                    }
                )
    return found
