"""Whether a model fits its nodes, said before a weight is read: what each needs, what it has, what would fit."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from dllama_py.blocks import FloatType
from dllama_py.errors import UsageError
from dllama_py.formats.tensors import tensor_specs
from dllama_py.kernels.layout import PAGE
from dllama_py.model.memory import READ_BYTES, RankMemory, StepSize, rank_memories
from dllama_py.orders import Orders
from dllama_py.sharding.grid import even_split, grid_shards
from dllama_py.sharding.plan import Shard, rank_counts
from dllama_py.transport.hosts import Host

Budget = tuple[str | int, ...]  # of memory: what tells it from others


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a rank tells of its host. Free bytes, None where unknown: of the host, of the process alone, and of the
    container.

    `warning`: what else its user should know.
    """

    host: Host
    n_threads: int
    host_bytes: int | None
    process_bytes: int | None
    container_bytes: int | None = None
    warning: str = ""

    def budgets(self, rank: int) -> dict[Budget, int | None]:
        """Free bytes by what shares them: the ranks of a host, those of a container, the rank alone."""
        place = self.host.id, self.host.container
        return {place[:1]: self.host_bytes, place: self.container_bytes, (rank,): self.process_bytes}


@dataclass(frozen=True, slots=True)
class NodePlan:
    """What one node needs, and what it has: of a host's free memory the part that is left for this rank."""

    rank: int
    host: Host
    needs: RankMemory
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """All nodes. `longest_context` fits them and the model; 0 if none does. `draft`: of a model that guesses at the
    root.
    """

    nodes: tuple[NodePlan, ...]
    context: int
    longest_context: int
    draft: Orders | None = None

    @property
    def fits(self) -> bool:
        return self.longest_context >= self.context


def plan_memory(orders: Orders, facts: Sequence[NodeFacts], draft: Orders | None = None) -> MemoryPlan:
    """The plan of these orders for these nodes, one a rank. `draft`: orders of a model that guesses at the root."""

    def fits(context: int) -> bool:
        return _lacking(_needs(orders, facts, context, draft), facts) is None

    needs = _needs(orders, facts, orders.context, draft)
    nodes = tuple(
        NodePlan(rank, node.host, need, free_share(rank, facts))
        for rank, (node, need) in enumerate(zip(facts, needs, strict=True))
    )
    return MemoryPlan(nodes, orders.context, _longest(fits, orders.config.context_length), draft)


def refuse_what_does_not_fit(plan: MemoryPlan, orders: Orders, facts: Sequence[NodeFacts], from_folder: bool) -> None:
    """UsageError names the first node that has too little, and what would fit. `from_folder`: --weights is a choice."""
    lack = _lacking([node.needs for node in plan.nodes], facts)
    if lack is None:
        return
    node, ways = plan.nodes[lack.rank], _ways_out(plan, orders, facts, from_folder)
    own_bytes = node.needs.total_bytes
    together = f", {_gb(lack.needed_bytes)} with the other ranks there" if lack.needed_bytes > own_bytes else ""
    raise UsageError(
        f"rank {node.rank} on {node.host} needs {_gb(own_bytes)} of memory{together}, "
        f"{_gb(lack.free_bytes)} are free; {ways}"
    )


def _needs(orders: Orders, facts: Sequence[NodeFacts], context: int, draft: Orders | None = None) -> list[RankMemory]:
    shards, n_stages = _shards(orders, len(facts)), len(orders.grid(len(facts)).stages)
    step = StepSize(orders.chunk_rows, max(node.n_threads for node in facts), orders.n_slots, n_stages)
    needs = rank_memories(orders.config, shards, orders.kinds, context, orders.half_cache, step)
    if orders.reads_memory:
        read_bytes = READ_BYTES // len(facts)
        needs = [replace(need, buffers_bytes=need.buffers_bytes + read_bytes) for need in needs]
    if draft is not None:
        (guest,) = _needs(draft, facts[:1], min(context, draft.config.context_length))
        needs[0] = replace(needs[0], draft_bytes=guest.total_bytes - guest.python_bytes)
    return needs


def _shards(orders: Orders, n_ranks: int) -> list[Shard]:
    return grid_shards(orders.config, orders.grid(n_ranks), orders.replicate_kv)


@dataclass(frozen=True, slots=True)
class _Lack:
    """Of a rank: what it needs, alone or with others, and what they all may have."""

    rank: int
    needed_bytes: int
    free_bytes: int


def _lacking(needs: Sequence[RankMemory], facts: Sequence[NodeFacts]) -> _Lack | None:
    """Of the first rank that has too little, where it is furthest from enough; None if all have enough."""
    budgets = [node.budgets(rank) for rank, node in enumerate(facts)]
    totals: Counter[Budget] = Counter()
    for need, of_rank in zip(needs, budgets, strict=True):
        totals.update(dict.fromkeys(of_rank, need.total_bytes))
    for rank, of_rank in enumerate(budgets):
        lacks = [
            _Lack(rank, totals[budget], free)
            for budget, free in of_rank.items()
            if free is not None and totals[budget] > free
        ]
        if lacks:
            return min(lacks, key=lambda lack: lack.free_bytes - lack.needed_bytes)
    return None


def free_share(rank: int, facts: Sequence[NodeFacts]) -> int | None:
    """What a rank may take: an even share of what there is for all ranks there; None where nobody knows."""
    shared = Counter(budget for number, node in enumerate(facts) for budget in node.budgets(number))
    own = facts[rank].budgets(rank).items()
    return min((free // shared[budget] for budget, free in own if free is not None), default=None)


def _longest(fits: Callable[[int], bool], most: int) -> int:
    """The largest context, in whole pages or the model's, that fits; 0 if none does."""
    if fits(most):
        return most
    low, high = 0, -(-most // PAGE)  # low pages fit, high do not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle * PAGE) else (low, middle)
    return low * PAGE


def _ways_out(plan: MemoryPlan, orders: Orders, facts: Sequence[NodeFacts], from_folder: bool) -> str:
    """What would fit, the least change first."""
    ways = []
    if plan.draft is not None and _lacking(_needs(orders, facts, orders.context), facts) is None:
        ways.append("no --draft")
    if plan.longest_context:
        ways.append(f"--max-seq-len {plan.longest_context}")
    smaller = replace(orders, kinds=_all_q40(orders))
    if _lacking(_needs(smaller, facts, orders.context, plan.draft), facts) is None:
        ways.append("--weights q40" if from_folder else "the model in q40")
    more = _enough_hosts(orders, facts, plan.draft)
    if more:
        ways.append(f"{more} nodes on hosts of their own")
    if not ways:
        return "no shorter context and no number of such hosts is enough; use a smaller model or hosts with more memory"
    return f"what would fit: {', or '.join(ways)}"


def _all_q40(orders: Orders) -> dict[str, FloatType]:
    matrices = {spec.name for spec in tensor_specs(orders.config) if spec.is_matrix}
    return {name: FloatType.Q40 if name in matrices else kind for name, kind in orders.kinds.items()}


def _enough_hosts(orders: Orders, facts: Sequence[NodeFacts], draft: Orders | None) -> int | None:
    """The fewest nodes, each on a host like the smallest of these, that can hold the model; None if none can."""
    limits = (free for node in facts for free in (node.host_bytes, node.container_bytes) if free is not None)
    smallest = min(limits, default=0)
    n_hosts = len({node.host for node in facts})
    for n_ranks, wider in _wider(orders):
        nodes = [NodeFacts(Host.named(str(rank)), facts[0].n_threads, smallest, None) for rank in range(n_ranks)]
        if n_ranks > n_hosts and _lacking(_needs(wider, nodes, orders.context, draft), nodes) is None:
            return n_ranks
    return None


def _wider(orders: Orders) -> Iterator[tuple[int, Orders]]:
    """The numbers of ranks that can share the model in the same topology, and how."""
    orders = replace(orders, stage_width=None)
    if len(orders.layer_counts) == 1:
        yield from ((n_ranks, orders) for n_ranks in rank_counts(orders.config, orders.replicate_kv))
        return
    n_layers = orders.config.n_layers
    for n_ranks in range(1, n_layers + 1):
        yield n_ranks, replace(orders, layer_counts=even_split(n_layers, n_ranks))


def _gb(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.2f} GB"
