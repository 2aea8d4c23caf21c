"""What is told of an answer's way through the stages of a pipeline: hops, and how true the plan was."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from dllama_py.boot import Engine
from dllama_py.cli.plan_table import comparison
from dllama_py.engine.hop_report import HopTimes, HopTotals
from dllama_py.planning.plan_file import as_json
from dllama_py.sizes import size


class Timed(Protocol):
    """What it needs of `record.Record`."""

    @property
    def n_decoded(self) -> int: ...

    @property
    def decode_s(self) -> float: ...

    @property
    def decode_tok_s(self) -> float | None: ...

    @property
    def network_share(self) -> float: ...

    @property
    def n_prefilled(self) -> int: ...

    @property
    def prefill_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Hops:
    """Of a decoded token: how many messages follow each other, the mean milliseconds of each, from the end of one
    stage's work to the beginning of the next one's; `each`: what the message alone took on each way, and its bytes.
    """

    count: int
    ms: float
    each: Sequence[HopTimes]


@dataclass(slots=True)
class HopWatch:
    """What the messages between stages take from its making on."""

    engine: Engine
    before: HopTotals | None = field(init=False)

    def __post_init__(self) -> None:
        self.before = self.engine.runner.hop_totals()

    def hops(self) -> list[HopTimes]:
        """Of each way that a token goes, once those of it have been timed; nothing of the tensor topology."""
        if self.before is None:
            return []
        leaders = [stage.leader for stage in self.engine.orders.grid(len(self.engine.ranks)).stages]
        after = self.engine.runner.hop_totals()
        return after.since(self.before, list(pairwise([*leaders, 0]))) if after else []


def topology(engine: Engine) -> str:
    """As the user called it: a pipeline of which one machine has all layers is still one."""
    if engine.plan is None:
        return "tensor"
    return "pipeline" if len(engine.plan.stages[0].ranks) == 1 else "grid"


def hops(engine: Engine, record: Timed, watch: HopWatch) -> Hops | None:
    """None where there are none."""
    count = len(engine.orders.grid(len(engine.ranks)).stages)
    if count == 1 or not record.n_decoded:
        return None
    token_ms = 1000 * record.decode_s / record.n_decoded
    return Hops(count, token_ms * record.network_share / count, watch.hops())


def stages_figures(engine: Engine, record: Timed, watch: HopWatch) -> dict[str, object]:
    """For the JSON object of an answer: nothing of the tensor topology."""
    if engine.plan is None:
        return {}
    found = hops(engine, record, watch)
    return {"plan": as_json(engine.plan), "hops": _figures(found) if found else None}


def _figures(found: Hops) -> dict[str, object]:
    each = [
        {"from": hop.sender, "to": hop.receiver, "ms": 1000 * hop.seconds, "bytes": hop.n_bytes} for hop in found.each
    ]
    return {"count": found.count, "ms": found.ms, "bytes": sum(hop.n_bytes for hop in found.each), "each": each}


def stages_summary(engine: Engine, record: Timed, watch: HopWatch) -> str:
    """Lines for the user; nothing of the tensor topology."""
    if engine.plan is None:
        return ""
    found, told = hops(engine, record, watch), ""
    if found:
        share = f"the network has {100 * record.network_share:.0f} % of a token"
        ways = "".join(
            f"\n   rank {hop.sender} to rank {hop.receiver}: {size(round(hop.n_bytes))} in {1000 * hop.seconds:.2f} ms"
            for hop in found.each
        )
        told = f"\n{found.count} hops a token, {found.ms:.2f} ms from stage to stage: {share}{ways}"
    prefill_tok_s = record.n_prefilled / record.prefill_s
    return f"{told}\n{comparison(engine.plan, record.decode_tok_s, record.n_prefilled, prefill_tok_s)}"
