"""All ranks of a run come to one plan: they measure themselves, the root decides, everybody learns the layers."""

from contextlib import closing
from dataclasses import replace

from dllama_py.activations import ActivationType
from dllama_py.kernels.team import Team
from dllama_py.orders import Orders
from dllama_py.planning import plan_file
from dllama_py.planning.deciding import decide
from dllama_py.planning.measuring import Measured, measure
from dllama_py.planning.plan import Plan
from dllama_py.planning.probe_products import Subject
from dllama_py.planning.splits import AUTO
from dllama_py.planning.topologies import choose_topology
from dllama_py.planning.wishes import Node, Root, Wishes
from dllama_py.progress import Progress
from dllama_py.sharding.plan import make_plan
from dllama_py.transport.comm import Comm
from dllama_py.transport.failure import agreed


def agree(orders: Orders, comm: Comm, n_threads: int, on_progress: Progress, root: Root | None) -> Plan | None:
    """The plan at the root, None elsewhere. `orders`: with a split to begin with, whose number of stages stays.

    AgreedFailure where a split was given that does not fit, or none is found.
    """
    width = comm.size // len(orders.layer_counts)
    shard = make_plan(orders.config, width, orders.replicate_kv)[comm.rank % width]
    subject = Subject(orders.config, shard, orders.kinds, orders.half_cache)
    with closing(Team(n_threads)) as team:
        measured = measure(comm, subject, len(orders.layer_counts), team, on_progress)
    plan = None
    with agreed(comm):
        if root is not None:
            plan = _decide(orders, root, measured)
            if len(plan.stages) > 1 or orders.plan_only:
                root.on_stages(plan)
            if root.settings.save_plan:
                plan_file.save(plan, root.settings.save_plan)
    return plan


def follow(orders: Orders, plan: Plan) -> Orders:
    """The same with the layers of the plan, and chunks of its size as far as all sequences have a row."""
    chunk_rows = min(max(plan.chunk_rows, orders.n_slots), orders.chunk_rows)
    width = len(plan.stages[0].ranks)
    return replace(orders, layer_counts=plan.counts, chunk_rows=chunk_rows, stage_width=width)


def _decide(orders: Orders, root: Root, measured: Measured) -> Plan:
    settings, width = root.settings, len(root.facts) // len(orders.layer_counts)
    is_free = settings.split == AUTO and settings.plan is None
    wishes = Wishes(
        model=root.model,
        context=orders.context,
        half_cache=orders.half_cache,
        row_bytes=ActivationType.named(orders.activations).row_bytes(orders.config.width),
        split=AUTO if is_free else ",".join(map(str, orders.layer_counts)),
        width=width,
        chunk_rows=orders.chunk_rows,
        n_slots=orders.n_slots,
        exchange=orders.exchange,
        replicate_kv=orders.replicate_kv,
    )
    nodes = [Node(facts, speed) for facts, speed in zip(root.facts, measured.speeds, strict=True)]
    if not settings.or_tensor:
        return decide(wishes, orders.config, orders.kinds, nodes, measured.links)
    plan, lines = choose_topology(wishes, orders.config, orders.kinds, nodes, measured.links)
    for line in lines:
        root.say(line)
    return plan
