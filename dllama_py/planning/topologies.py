"""Of the same ranks: a pipeline of all, or the first 2^n of them sharing every layer. Which is faster, and why."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dllama_py.config import ModelConfig
from dllama_py.errors import UsageError
from dllama_py.planning.borders import NEARLY
from dllama_py.planning.deciding import decide
from dllama_py.planning.plan import Plan
from dllama_py.planning.wishes import Links, Node, Wishes
from dllama_py.sharding.kinds import Kinds

Choice = tuple[Plan, tuple[str, ...]]  # what is chosen, and lines that say why


def choose_topology(wishes: Wishes, config: ModelConfig, kinds: Kinds, nodes: Sequence[Node], links: Links) -> Choice:
    """The plan of the fastest; of those that are nearly as fast for a token, that with the fastest prompts. A plan of
    one stage means that its ranks share every layer, and the others are idle.

    UsageError where the model fits in no way.
    """
    found: list[Plan] = []
    refused: dict[int, UsageError] = {}  # number of ranks -> why they cannot share it
    for n_ranks in (1 << n for n in range(len(nodes).bit_length())):
        try:
            few = replace(wishes, width=n_ranks, row_bytes=4 * config.width)
            found.append(decide(few, config, kinds, nodes[:n_ranks], links))
        except UsageError as error:
            refused[n_ranks] = error
    try:
        pipeline = decide(wishes, config, kinds, nodes, links)
        if len(_used(pipeline)) > 1 or not found:
            found.append(pipeline)
    except UsageError:
        if not found:
            raise
    nearly = [plan for plan in found if plan.together_s <= NEARLY * min(each.together_s for each in found)]
    best = min(nearly, key=lambda plan: (plan.prompt_s, len(_used(plan))))
    return replace(best, notes=()), tuple(_lines(best, found, refused, nodes))


def _lines(best: Plan, found: Sequence[Plan], refused: dict[int, UsageError], nodes: Sequence[Node]) -> Iterator[str]:
    others = "; ".join(_rates(plan) for plan in found if plan is not best)
    hosts = dict.fromkeys(nodes[rank].facts.host for rank in _used(best))
    yield f"topology auto: {_rates(best)}, on {', '.join(map(str, hosts))}{f'; instead of {others}' if others else ''}"
    if len(best.stages) > 1:
        yield from best.notes
    elif idle := range(len(best.stages[0].ranks), len(nodes)):
        names = ", ".join(dict.fromkeys(f"rank {rank} on {nodes[rank].facts.host}" for rank in idle))
        yield f"{names} left out: {_reason(best, found, refused)}"


def _reason(best: Plan, found: Sequence[Plan], refused: dict[int, UsageError]) -> str:
    """Why no more ranks share every layer, and none a pipeline."""
    n_ranks = len(best.stages[0].ranks)
    with_s = [plan.together_s for plan in found if len(_used(plan)) > n_ranks]
    if with_s:
        return f"with more ranks a token would take {1000 * min(with_s):.1f} ms instead of {1000 * best.together_s:.1f}"
    return str(refused.get(2 * n_ranks, "the model has no room there"))


def _rates(plan: Plan) -> str:
    return f"{_called(plan)} ({plan.batch_tok_s:.1f} tokens/s, prompts {plan.prefill_tok_s:.0f})"


def _called(plan: Plan) -> str:
    n_ranks = len(_used(plan))
    if len(plan.stages) > 1:
        return f"a pipeline of {n_ranks}"
    return "one rank alone" if n_ranks == 1 else f"tensor on {n_ranks} ranks"


def _used(plan: Plan) -> list[int]:
    """Ranks that have layers."""
    return [rank for stage in plan.stages if stage.layers for rank in stage.ranks]
