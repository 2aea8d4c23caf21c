"""The one place of assembly: from settings to ranks that hold a model and a root that can be asked.

The root reads the model and decides; the other ranks learn all they need from one message (`Orders`), so they have
neither a model file nor settings.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dllama_py.cluster.cores import ThreadChoice, choose_threads
from dllama_py.cluster.free_memory import free_memory
from dllama_py.description import kernel_lines, model_lines, same_name_lines, shape_line, slice_lines, warning_lines
from dllama_py.drafting import Draft, decide_draft
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.formats.soundness import refuse_broken
from dllama_py.memory_plan import MemoryPlan, NodeFacts, plan_memory, refuse_what_does_not_fit
from dllama_py.ordering import orders_for
from dllama_py.orders import Orders
from dllama_py.planning.plan import Plan
from dllama_py.planning.wishes import Root
from dllama_py.progress import Progress, unwatched
from dllama_py.settings import EngineSettings, check_number
from dllama_py.sharding.grid import grid_shards
from dllama_py.sharding.plan import Shard
from dllama_py.stamps import Recording
from dllama_py.transport.collectives import gather_json
from dllama_py.transport.comm import Comm
from dllama_py.transport.failure import agreed
from dllama_py.transport.hosts import Host, sharing
from dllama_py.transport.metered import MeteredComm

if TYPE_CHECKING:
    from dllama_py.engine.runner import Runner


@dataclass(frozen=True, slots=True)
class RankFacts:
    """What one rank reports once it is ready."""

    host: Host
    n_threads: int
    bytes_per_token: int
    compile_s: float
    note: str  # on where its compiled kernels are, if not where they belong


@dataclass(frozen=True, slots=True)
class Engine:
    """The root's view of a cluster that is ready. `draft`: runs a small model that guesses, on the root alone."""

    runner: "Runner"
    checkpoint: Checkpoint
    orders: Orders
    shards: tuple[Shard, ...]
    threads: ThreadChoice
    ranks: tuple[RankFacts, ...]
    load_s: float
    draft: "Runner | None"
    memory: MemoryPlan
    plan: Plan | None = None  # of a pipeline


Say = Callable[[str], None]
Open = Callable[[], Checkpoint]
Check = Callable[[Checkpoint, Orders], None]


def unsaid(line: str) -> None:
    """To nobody."""


@dataclass(frozen=True, slots=True)
class Watch:
    """Who is told, before a weight is read, of the memory that is needed, of a pipeline's stages and of details, and
    then of how far loading is, at the root alone; and on every rank where it is recorded what its threads do, if
    anywhere.
    """

    on_plan: Callable[[MemoryPlan], None]
    on_progress: Progress
    recording: Recording | None = None
    on_stages: Callable[[Plan], None] = lambda plan: None
    on_detail: Say = unsaid


UNWATCHED = Watch(lambda plan: None, unwatched)


def _no_check(checkpoint: Checkpoint, orders: Orders) -> None:
    """Everything is fine."""


@contextmanager
def open_engine(
    settings: EngineSettings,
    comm: Comm,
    open_model: Open,
    say: Say,
    check: Check = _no_check,
    watch: Watch = UNWATCHED,
) -> Iterator[Engine | None]:
    """Loads the model over all ranks. At the root an Engine; elsewhere the rank serves until the root ends, then None.

    `open_model` and then `check` are called at the root alone; `check` refuses what cannot work for a reason of the
    caller's. AgreedFailure, before a weight is read, when either does, when the model cannot be shared like this or
    when it does not fit the memory of the nodes.
    """
    started = time.perf_counter()
    if comm.rank:
        watch = replace(watch, on_progress=unwatched)
    with agreed(comm):
        threads = choose_threads(settings.n_threads, *sharing(comm.hosts, comm.rank))
        opened = (
            _opened(settings, [host.name for host in comm.hosts], open_model, check) if comm.rank == 0 else _Opened()
        )
    settled = _settle(settings, comm, opened, threads, say, watch)
    if settled.orders.plan_only:
        yield None
        return
    with _loaded(settled, comm, watch, say, started) as engine:
        yield engine


def serve_root(n_threads: int | None, comm: Comm) -> None:
    """A worker, which has no settings but its threads: serves until the root ends. AgreedFailure as `open_engine`; a
    number of threads that cannot be is one, since the others wait for this rank already."""
    started = time.perf_counter()
    with agreed(comm):
        if n_threads is not None:
            check_number("threads", n_threads)
        threads = choose_threads(n_threads, *sharing(comm.hosts, comm.rank))
    settled = _settle(EngineSettings(), comm, _Opened(), threads, unsaid, UNWATCHED)
    if not settled.orders.plan_only:
        with _loaded(settled, comm, UNWATCHED, unsaid, started):
            pass


@dataclass(frozen=True, slots=True)
class _Opened:
    """The model, what all ranks must know of it, and who guesses for it: at the root alone."""

    checkpoint: Checkpoint | None = None
    orders: Orders | None = None
    draft: Draft | None = None


@dataclass(frozen=True, slots=True)
class _Settled:
    """All that is decided before a weight is read: on every rank, but for `opened` and the plans, the root's."""

    opened: _Opened
    threads: ThreadChoice
    orders: Orders
    shards: tuple[Shard, ...]
    memory: MemoryPlan | None
    plan: Plan | None


def _opened(settings: EngineSettings, hosts: Sequence[str], open_model: Open, check: Check) -> _Opened:
    checkpoint = open_model()
    orders = orders_for(checkpoint, settings, hosts)
    check(checkpoint, orders)
    refuse_broken(checkpoint)
    draft = decide_draft(settings.draft, settings.weights, orders) if settings.draft else None
    return _Opened(checkpoint, orders, draft)


def _settle(
    settings: EngineSettings, comm: Comm, opened: _Opened, threads: ThreadChoice, say: Say, watch: Watch
) -> _Settled:
    """Layers find their ranks, and the memory is found to be enough; AgreedFailure if it is not."""
    orders, checkpoint = _share(opened.orders, comm), opened.checkpoint
    facts = [NodeFacts(**fact) for fact in _gather(_node_facts(comm, threads), comm)]
    if checkpoint is not None:
        for line in (*model_lines(checkpoint, orders), *same_name_lines(comm.hosts), *warning_lines(facts)):
            say(line)
        watch.on_detail(shape_line(orders))
    root = _root(checkpoint, settings, facts, watch, say)
    orders, plan = _plan_stages(orders, comm, threads.n_threads, watch.on_progress, root)
    shards = tuple(grid_shards(orders.config, orders.grid(comm.size), orders.replicate_kv))
    memory = None
    with agreed(comm):
        if checkpoint is not None and not orders.plan_only:
            for line in slice_lines(shards):
                watch.on_detail(line)
            memory = _plan_memory(checkpoint, orders, facts, opened.draft, watch)
    return _Settled(opened, threads, orders, shards, memory, plan)


@contextmanager
def _loaded(settled: _Settled, comm: Comm, watch: Watch, say: Say, started: float) -> Iterator[Engine | None]:
    """The weights come to all ranks, and each takes its role."""
    # numba takes most of a second to import; a refusal, or --help, need not wait for it.
    from dllama_py.kernels.code_cache import store
    from dllama_py.kernels.team import Team
    from dllama_py.loading import load_draft, loaded_rank
    from dllama_py.roles import run_alone, take_role

    orders, shards, threads = settled.orders, settled.shards, settled.threads
    checkpoint, draft, memory = settled.opened.checkpoint, settled.opened.draft, settled.memory
    metered, team = MeteredComm(comm), Team(threads.n_threads, watch.recording)
    with loaded_rank(orders, shards, metered, checkpoint, team, watch.on_progress, say) as rank:
        read_bytes = rank.weights.bytes_per_token()
        own = RankFacts(comm.hosts[comm.rank], threads.n_threads, read_bytes, rank.compile_s, store().note)
        ranks = tuple(RankFacts(**fact) for fact in _gather(own, comm))
        for line in kernel_lines([(str(facts.host), facts.note) for facts in ranks]):
            say(line)
        with take_role(rank, team, orders, shards, metered, checkpoint) as runner:
            if runner is None or checkpoint is None or memory is None:
                yield None
                return
            guesser = run_alone(load_draft(draft, team, watch.on_progress), draft.checkpoint) if draft else None
            load_s = time.perf_counter() - started
            yield Engine(runner, checkpoint, orders, shards, threads, ranks, load_s, guesser, memory, settled.plan)


def _root(
    checkpoint: Checkpoint | None, settings: EngineSettings, facts: list[NodeFacts], watch: Watch, say: Say
) -> Root | None:
    """What the root adds to the plan of a pipeline."""
    if checkpoint is None or settings.pipeline is None:
        return None
    return Root(settings.pipeline, checkpoint.path.name, facts, watch.on_stages, say)


def _plan_stages(
    orders: Orders, comm: Comm, n_threads: int, on_progress: Progress, root: Root | None
) -> tuple[Orders, Plan | None]:
    """Which layers go where, if not all of them everywhere: measured and agreed by all ranks. The plan itself is the
    root's."""
    if len(orders.layer_counts) == 1:
        return orders, None
    from dllama_py.planning.agreement import agree, follow

    plan = agree(orders, comm, n_threads, on_progress, root)
    followed = _share(follow(orders, plan) if plan else None, comm)
    return followed, plan if len(followed.layer_counts) > 1 else None


def _share(orders: Orders | None, comm: Comm) -> Orders:
    """The root's orders on every rank."""
    text = np.frombuffer(orders.to_json().encode() if orders else b"", np.uint8)
    size = np.array([text.size], np.int64)
    comm.broadcast(size)
    buffer = text.copy() if orders else np.zeros(size[0], np.uint8)
    comm.broadcast(buffer)
    return Orders.from_json(buffer.tobytes().decode())


def _node_facts(comm: Comm, threads: ThreadChoice) -> NodeFacts:
    free = free_memory()
    host, limits = comm.hosts[comm.rank], (free.host_bytes, free.process_bytes, free.container_bytes)
    return NodeFacts(host, threads.n_threads, *limits, threads.warning)


def _plan_memory(
    checkpoint: Checkpoint, orders: Orders, facts: list[NodeFacts], draft: Draft | None, watch: Watch
) -> MemoryPlan:
    plan = plan_memory(orders, facts, draft.orders if draft else None)
    watch.on_plan(plan)
    refuse_what_does_not_fit(plan, orders, facts, checkpoint.path.is_dir())
    return plan


def _gather(facts: NodeFacts | RankFacts, comm: Comm) -> list[dict[str, Any]]:
    """Every rank's facts at the root, nothing elsewhere."""
    told = gather_json(comm, asdict(facts))
    return [of_rank | {"host": host} for of_rank, host in zip(told, comm.hosts, strict=False)]
