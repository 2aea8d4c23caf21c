"""A profile of nodes that share every layer: what it tells beside the times, and the bars of its picture."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dllama_py.config import ModelConfig
from dllama_py.cost_model import Network
from dllama_py.profiling.advice import Advice, Measured, Node, advise, settings
from dllama_py.profiling.analysis import StepTimes, kernel_times
from dllama_py.profiling.picture import Bar
from dllama_py.profiling.report import Session, Times, facts, mean_times, times_of
from dllama_py.stamps import Role

SHARED = (Role.WEIGHTS, Role.ATTENTION)  # what more nodes share; all else each of them does whole


@dataclass(frozen=True, slots=True)
class TensorReport:
    """`network`: of the session's ranks, None on one node."""

    times: Times
    measured: Measured
    advice: Advice

    def as_json(self) -> dict[str, Any]:
        """Keys as documented in docs/profiling.md."""
        measured = self.measured
        links = measured.network.links if measured.network else ()
        return facts(self.times) | {
            "exchange": measured.exchange,
            "links": [asdict(link) for link in links],
            "forecasts": [{**asdict(each), "seconds": each.seconds} for each in settings(measured)],
            "advice": asdict(self.advice),
        }

    def bars(self, beside: Sequence[dict[str, Any]]) -> list[Bar]:
        """This run, those beside it (as `as_json` makes them), and forecasts of what was not measured."""
        runs = [self.as_json(), *beside]
        measured = {(run["nodes"], run["exchange"]): _measured_bar(run) for run in reversed(runs)}
        forecasts = [
            Bar(_label(each.n_nodes, each.exchange), each.compute_s, 0.0, each.sync_s, 0.0, True)
            for each in settings(self.measured)
            if (each.n_nodes, each.exchange) not in measured
        ]
        return [*(measured[key] for key in sorted(measured)), *forecasts]


def tensor_report(session: Session, config: ModelConfig, exchange: str, network: Network | None) -> TensorReport:
    """What the stamps amount to, and what would be faster."""
    times = times_of(session)
    steps = times.decoding
    nodes = tuple(_node(session, steps, rank) for rank in range(len(session.ranks)))
    n_collectives = len(steps[0].collectives)
    measured = Measured(config, exchange, times.token_s, nodes, n_collectives, network, session.one_node_s)
    return TensorReport(times, measured, advise(measured))


def _node(session: Session, steps: Sequence[StepTimes], rank: int) -> Node:
    mean = mean_times(steps, rank)
    kernels = kernel_times(session.ranks[rank], session.decoding)
    busy_s = sum(times.busy_s for times in kernels)
    shared_s = mean.compute_s * sum(times.busy_s for times in kernels if times.role in SHARED) / busy_s
    last = [each for step in steps for each in step.collectives if each.last == rank]
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


def _weight_bytes(session: Session, rank: int) -> int:
    """That a node reads for a token."""
    timeline = session.ranks[rank]
    runs = timeline.runs_of(session.decoding[0])
    return sum(work.bytes_read(run.counts) for run in runs for work in timeline.works(run) if work.role is Role.WEIGHTS)


def _measured_bar(run: dict[str, Any]) -> Bar:
    """Means over the nodes."""
    nodes = run["per_token"]
    names = ("compute_ms", "wait_ms", "transfer_ms", "outside_ms")
    compute_s, wait_s, transfer_s, outside_s = (sum(node[name] for node in nodes) / len(nodes) / 1000 for name in names)
    return Bar(_label(run["nodes"], run["exchange"]), compute_s, wait_s, transfer_s, outside_s, False)


def _label(n_nodes: int, exchange: str) -> str:
    return f"{n_nodes} nodes, {exchange}" if n_nodes > 1 else "1 node"
