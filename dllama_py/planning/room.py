"""Whether stages have the memory for their layers, and what to say if not: which layers, which rank, how many bytes."""

import math
from collections import Counter

from dllama_py.errors import UsageError
from dllama_py.memory_plan import Budget
from dllama_py.planning.paths import ranges
from dllama_py.planning.pricing import Case
from dllama_py.planning.wishes import free_bytes
from dllama_py.sizes import size

WAYS_OUT = "what helps: a smaller --max-seq-len, another machine, or a smaller model"


def refuse_too_large(case: Case, counts: tuple[int, ...]) -> None:
    """UsageError where a rank, or all of a host together, would need more than there is."""
    taken: Counter[Budget] = Counter()
    for stage, layers in ranges(counts):
        for rank in case.ranks(stage):
            needs = float(case.needs_bytes(rank)[layers.start, layers.stop])
            facts = case.nodes[rank].facts
            budgets = facts.budgets(rank)
            left = [known - taken[budget] for budget, known in budgets.items() if known is not None]
            free = float(min(left, default=math.inf))
            taken.update(dict.fromkeys(budgets, math.ceil(needs)))
            if needs > free:
                raise UsageError(
                    f"stage {stage}: {spoken(layers)} need {size(int(needs))} of memory on rank {rank} on {facts.host} "
                    f"with their cache and buffers, {size(max(int(free), 0))} are free there; "
                    f"{_room(case, rank, layers.stop, free)}, or --split auto"
                )


def too_large(case: Case) -> UsageError:
    """What to say of a model for which no split is found."""
    at, n_layers, held = 0, case.config.n_layers, []
    for stage in range(case.n_stages):
        stop = min(_reach(case, rank, at, free_bytes(case.nodes, rank)) for rank in case.ranks(stage))
        hosts = ", ".join(dict.fromkeys(case.nodes[rank].facts.host.name for rank in case.ranks(stage)))
        held.append(f"stage {stage} on {hosts} {spoken(range(at, stop)) if stop > at else 'none'}")
        at = stop
    left = range(at, n_layers)
    sizes = case.sizes[0]
    n_bytes = sum(sizes.layers[layer].weights_bytes + sizes.layer_cache_bytes for layer in left)
    rest = f"{spoken(left)} ({size(n_bytes)} with their cache) have no room" if left else "the head has no room"
    return UsageError(
        f"the model does not fit these ranks with a context of {case.wishes.context}: {', '.join(held)}; "
        f"{rest}; {WAYS_OUT}"
    )


def spoken(layers: range) -> str:
    """'layer 3', 'layers 3 to 7'."""
    return f"layer {layers.start}" if len(layers) == 1 else f"layers {layers.start} to {layers[-1]}"


def _room(case: Case, rank: int, stop: int, free: float) -> str:
    """How many layers could be there, those before `stop`."""
    count = sum(needs <= free for needs in case.needs_bytes(rank)[:stop, stop].tolist())
    return f"expected at most {count} there" if count else "not one of them has room: leave it out (0)"


def _reach(case: Case, rank: int, first: int, free: float) -> int:
    """The border up to which the rank can hold layers from `first` on; `first` if it can hold none."""
    needs = case.needs_bytes(rank)[first]
    fitting = [stop for stop in range(first + 1, case.config.n_layers + 1) if needs[stop] <= free]
    return max(fitting, default=first)
