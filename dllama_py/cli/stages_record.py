"""What is told of an answer's way through the stages of a pipeline: hops, and how true the plan was."""

from dataclasses import asdict, dataclass
from typing import Protocol

from dllama_py.boot import Engine
from dllama_py.cli.plan_table import comparison
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
    def sent_bytes_per_token(self) -> float: ...

    @property
    def n_prefilled(self) -> int: ...

    @property
    def prefill_s(self) -> float: ...


@dataclass(frozen=True, slots=True)
class Hops:
    """Of a decoded token: how many messages follow each other, the mean milliseconds of each, from the end of one
    stage's work to the beginning of the next one's, and the bytes of the first.
    """

    count: int
    ms: float
    n_bytes: float


def topology(engine: Engine) -> str:
    """As the user called it: a pipeline of which one machine has all layers is still one."""
    if engine.plan is None:
        return "tensor"
    return "pipeline" if len(engine.plan.stages[0].ranks) == 1 else "grid"


def hops(engine: Engine, record: Timed) -> Hops | None:
    """None where there are none."""
    count = len(engine.orders.grid(len(engine.ranks)).stages)
    if count == 1 or not record.n_decoded:
        return None
    token_ms = 1000 * record.decode_s / record.n_decoded
    return Hops(count, token_ms * record.network_share / count, record.sent_bytes_per_token)


def stages_figures(engine: Engine, record: Timed) -> dict[str, object]:
    """For the JSON object of an answer: nothing of the tensor topology."""
    if engine.plan is None:
        return {}
    found = hops(engine, record)
    return {"plan": as_json(engine.plan), "hops": asdict(found) if found else None}


def stages_summary(engine: Engine, record: Timed) -> str:
    """Lines for the user; nothing of the tensor topology."""
    if engine.plan is None:
        return ""
    found, told = hops(engine, record), ""
    if found:
        told = (
            f"\n{found.count} hops a token, {found.ms:.2f} ms and {size(round(found.n_bytes))} each: the network has "
            f"{100 * record.network_share:.0f} % of a token"
        )
    prefill_tok_s = record.n_prefilled / record.prefill_s
    return f"{told}\n{comparison(engine.plan, record.decode_tok_s, record.n_prefilled, prefill_tok_s)}"
