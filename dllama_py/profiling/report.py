"""All that a profile tells, as plain values: for JSON, and for the tables that are made from it."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median_low
from typing import Any

from dllama_py.config import ModelConfig
from dllama_py.cost_model import Network
from dllama_py.profiling.advice import Advice, Measured, Node, advise, settings
from dllama_py.profiling.analysis import Collective, NodeTimes, StepTimes, kernel_times, memory_speeds, step_times
from dllama_py.profiling.clock import Reading
from dllama_py.profiling.picture import Bar
from dllama_py.profiling.timeline import RankTimeline, Span
from dllama_py.stamps import Role

DECODE = "decode"
SHARED = (Role.WEIGHTS, Role.ATTENTION)  # what more nodes share; all else each of them does whole


@dataclass(frozen=True, slots=True)
class Session:
    """One measured run, brought together at the root. `network`: None on one node."""

    config: ModelConfig
    exchange: str
    ranks: Sequence[RankTimeline]
    spans: Sequence[Span]
    network: Network | None
    clocks: Sequence[Reading]
    one_node_s: float | None = None  # a token on one node, if that was measured

    @property
    def decoding(self) -> list[Span]:
        return [span for span in self.spans if span.phase == DECODE]

    def phases(self) -> list[str]:
        """In the order in which they came."""
        return list(dict.fromkeys(span.phase for span in self.spans))


@dataclass(frozen=True, slots=True)
class Report:
    """`decoding`: the decode steps that have a following one, so that what lies between is known. `typical`: the one of
    median length, as an index of `steps`.
    """

    session: Session
    steps: Sequence[StepTimes]
    decoding: Sequence[StepTimes]
    typical: int
    measured: Measured
    advice: Advice


def report(session: Session) -> Report:
    """What the stamps amount to."""
    steps = step_times(session.ranks, session.spans)
    decoding = [step for step in steps[:-1] if step.phase == DECODE]
    middle = median_low([step.seconds for step in decoding])
    typical = next(number for number, step in enumerate(steps[:-1]) if step.phase == DECODE and step.seconds == middle)
    measured = _measured(session, decoding)
    return Report(session, steps, decoding, typical, measured, advise(measured))


def _measured(session: Session, steps: Sequence[StepTimes]) -> Measured:
    nodes = tuple(_node(session, steps, rank) for rank in range(len(session.ranks)))
    token_s = sum(step.seconds for step in steps) / len(steps)
    n_collectives = len(steps[0].collectives)
    return Measured(
        session.config, session.exchange, token_s, nodes, n_collectives, session.network, session.one_node_s
    )


def _node(session: Session, steps: Sequence[StepTimes], rank: int) -> Node:
    mean = mean_times(steps, rank)
    kernels = kernel_times(session.ranks[rank], session.decoding)
    busy_s = sum(times.busy_s for times in kernels)
    shared_s = mean.compute_s * sum(times.busy_s for times in kernels if times.role in SHARED) / busy_s
    last = [each for step in steps for each in step.collectives if each.last == rank and len(each.arrived_ns) > 1]
    return Node(
        session.ranks[rank].host,
        shared_s,
        mean.compute_s - shared_s + mean_times(steps, 0).outside_s,
        mean.wait_s,
        mean.transfer_s,
        _weight_bytes(session, rank) / sum(_weight_bytes(session, other) for other in range(len(session.ranks))),
        round(len(last) / len(steps)),
        sum(each.lead_s for each in last) / len(steps),
    )


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


def _weight_bytes(session: Session, rank: int) -> int:
    """That a node reads for a token."""
    timeline, span = session.ranks[rank], session.decoding[0]
    runs = timeline.runs[span.first : span.end]
    return sum(work.bytes_read(run.counts) for run in runs for work in timeline.works(run) if work.role is Role.WEIGHTS)


def bars(found: Report, beside: Sequence[dict[str, Any]]) -> list[Bar]:
    """This run, those beside it (as `as_json` makes them), and forecasts of what was not measured, for the picture."""
    runs = [as_json(found), *beside]
    measured = {(run["nodes"], run["exchange"]): _measured_bar(run) for run in reversed(runs)}
    forecasts = [
        Bar(_label(each.n_nodes, each.exchange), each.compute_s, 0.0, each.sync_s, 0.0, True)
        for each in settings(found.measured)
        if (each.n_nodes, each.exchange) not in measured
    ]
    return [*(measured[key] for key in sorted(measured)), *forecasts]


def _measured_bar(run: dict[str, Any]) -> Bar:
    """Means over the nodes."""
    nodes = run["per_token"]
    names = ("compute_ms", "wait_ms", "transfer_ms", "outside_ms")
    compute_s, wait_s, transfer_s, outside_s = (sum(node[name] for node in nodes) / len(nodes) / 1000 for name in names)
    return Bar(_label(run["nodes"], run["exchange"]), compute_s, wait_s, transfer_s, outside_s, False)


def _label(n_nodes: int, exchange: str) -> str:
    return f"{n_nodes} nodes, {exchange}" if n_nodes > 1 else "1 node"


def as_json(found: Report) -> dict[str, Any]:
    """Keys as documented in docs/profiling.md; times in milliseconds, rates per second."""
    session, measured = found.session, found.measured
    steps = found.decoding
    return {
        "nodes": len(session.ranks),
        "threads": [rank.n_threads for rank in session.ranks],
        "hosts": [rank.host for rank in session.ranks],
        "exchange": session.exchange,
        "decode_tok_s": 1 / measured.token_s,
        "token_ms": 1000 * measured.token_s,
        "per_token": [_milliseconds(mean_times(steps, rank)) for rank in range(len(session.ranks))],
        "steps": [_step(step) for step in found.steps],
        "collectives": [_collective([step.collectives[i] for step in steps]) for i in range(measured.n_collectives)],
        "kernels": kernels(session),
        "memory_gb_s": [speed / 1e9 for speed in memory_speeds(session.ranks)],
        "links": [asdict(link) for link in session.network.links] if session.network else [],
        "clocks": [
            {"offset_us": each.offset_ns / 1e3, "round_trip_us": each.round_trip_ns / 1e3} for each in session.clocks
        ],
        "forecasts": [{**asdict(each), "seconds": each.seconds} for each in settings(measured)],
        "advice": asdict(found.advice),
    }


def _step(step: StepTimes) -> dict[str, Any]:
    nodes = [_milliseconds(node) for node in step.nodes]
    return {"phase": step.phase, "rows": step.n_rows, "ms": 1000 * step.seconds, "nodes": nodes}


def _milliseconds(times: NodeTimes) -> dict[str, float]:
    return {name.replace("_s", "_ms"): 1000 * seconds for name, seconds in asdict(times).items()}


def _collective(same: Sequence[Collective]) -> dict[str, Any]:
    """One place's all-reduces of all decode steps; lists by rank."""
    ranks = range(len(same[0].arrived_ns))
    orders = [each.order for each in same]
    return {
        "number": same[0].number,
        "sent_bytes": list(same[0].sent_bytes),
        "ms": 1000 * sum((max(each.through_ns) - min(each.arrived_ns)) * 1e-9 for each in same) / len(same),
        "wait_ms": [1000 * sum(each.waits_s[rank] for each in same) / len(same) for rank in ranks],
        "transfer_ms": [1000 * sum(each.transfers_s[rank] for each in same) / len(same) for rank in ranks],
        "usual_order": list(Counter(orders).most_common(1)[0][0]),
        "times_last": [sum(each.last == rank for each in same) for rank in ranks],
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
