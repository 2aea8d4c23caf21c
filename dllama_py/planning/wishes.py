"""What a plan is made for: the user's wishes and what of the model's files matters, and the ranks there are."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dllama_py.cost_model import Link
from dllama_py.memory_plan import NodeFacts, free_share
from dllama_py.planning.plan import Plan
from dllama_py.planning.speeds import RankSpeed
from dllama_py.planning.splits import AUTO
from dllama_py.settings import DEFAULT_CHUNK_ROWS, PipelineSettings


@dataclass(frozen=True, slots=True)
class Wishes:
    """Of one run. `model`: the file's name; `row_bytes`: of activations of one row on their way to the next stage;
    `chunk_rows`: of a prompt computed at once, at most; `width`: ranks of a stage."""

    model: str
    context: int
    half_cache: bool
    row_bytes: int
    split: str = AUTO
    width: int = 1
    chunk_rows: int = DEFAULT_CHUNK_ROWS
    n_slots: int = 1
    exchange: str = "f32"
    replicate_kv: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """A rank: what it told of its host, and how fast it is."""

    facts: NodeFacts
    speed: RankSpeed


@dataclass(frozen=True, slots=True)
class Root:
    """What only the root of a run knows: the user's settings, the model's name, the facts of all ranks; and who is to
    hear of the plan, and in lines of why it is this one."""

    settings: PipelineSettings
    model: str
    facts: Sequence[NodeFacts]
    on_stages: Callable[[Plan], None]
    say: Callable[[str], None]


Links = Sequence[Sequence[Link]]  # [rank][other rank]


def free_bytes(nodes: Sequence[Node], rank: int) -> float:
    """What a rank may take: an even share of what its host has for all ranks there; infinite where nobody knows."""
    share = free_share(rank, [node.facts for node in nodes])
    return float("inf") if share is None else share
