"""One rank gets ready: its slices arrive and are packed, its programs are put together."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from dllama_py.cluster.free_memory import free_memory
from dllama_py.drafting import Draft
from dllama_py.engine.hops import HOP_KERNELS
from dllama_py.errors import DllamaError, UsageError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.kernels.compiled import warm_up
from dllama_py.kernels.elementary import KEEP_F32, ROUND_BF16, ROUND_Q80
from dllama_py.kernels.functions import Compilable
from dllama_py.kernels.pack import packer
from dllama_py.kernels.program import Kernel
from dllama_py.kernels.read_patterns import readers_of, settle_patterns
from dllama_py.kernels.team import Team
from dllama_py.model.all_reduce import AllReduce
from dllama_py.model.buffers import Buffers
from dllama_py.model.kv_cache import KvCache
from dllama_py.model.layers import Layers
from dllama_py.model.memory import rank_memories
from dllama_py.model.rank_model import RankModel, kernels_of
from dllama_py.model.rope import shared_tables
from dllama_py.orders import Orders
from dllama_py.progress import Progress
from dllama_py.sharding.grid import Grid
from dllama_py.sharding.local_copies import Walk, serve_weights, take_weights
from dllama_py.sharding.plan import Shard, make_plan
from dllama_py.sharding.weights import Weights
from dllama_py.transport.boxes import add_boxes
from dllama_py.transport.comm import SoloComm
from dllama_py.transport.failure import agreed
from dllama_py.transport.hosts import Host
from dllama_py.transport.metered import MeteredComm
from dllama_py.transport.readiness import wait_for_kernels

HELPER_BYTES = 400_000_000  # of memory, twice what a process takes that compiles
MOST_HELPERS = 3  # the function that takes longest takes a quarter of all
_ROUNDINGS = {"f32": KEEP_F32, "bf16": ROUND_BF16, "q80": ROUND_Q80}


@dataclass(frozen=True, slots=True)
class LoadedRank:
    """A rank that can compute. `comm`: of the ranks that share its layers. `compile_s`: seconds of compiling, of
    loading compiled code, or of waiting for it.
    """

    model: RankModel
    comm: MeteredComm
    weights: Weights
    compile_s: float


@contextmanager
def loaded_rank(
    orders: Orders,
    shards: Sequence[Shard],
    world: MeteredComm,
    checkpoint: Checkpoint | None,
    team: Team,
    on_progress: Progress,
    say: Callable[[str], None],
) -> Iterator[LoadedRank]:
    """Slices to every rank (the root has the checkpoint), then this rank's programs; ends the team at the end.

    `say`: at the root, is told of files on other hosts that differ from its own.
    """
    try:
        yield _load(orders, shards, world, checkpoint, team, on_progress, say)
    finally:
        team.close()


def load_draft(draft: Draft, team: Team, on_progress: Progress) -> LoadedRank:
    """The small model that guesses, on this rank alone, with the team of the large one."""
    world, shards = MeteredComm(SoloComm()), make_plan(draft.orders.config, 1)
    return _load(draft.orders, shards, world, draft.checkpoint, team, on_progress, lambda line: None)


def _load(
    orders: Orders,
    shards: Sequence[Shard],
    world: MeteredComm,
    checkpoint: Checkpoint | None,
    team: Team,
    on_progress: Progress,
    say: Callable[[str], None],
) -> LoadedRank:
    config, shard = orders.config, shards[world.rank]
    with agreed(world):
        weights, buffers, cache = _reserve(orders, world.rank, shard, world.hosts[world.rank], team.n_threads)
    rope = shared_tables(config, orders.context, world)
    comm = _stage_comm(orders.grid(world.size), world)
    rounding = _ROUNDINGS[orders.exchange]
    layers = Layers(config, weights, buffers, cache, rope, rounding)
    all_reduce = _all_reduce(comm, buffers, rounding) if comm.size > 1 else None
    kernels = [*kernels_of(layers, all_reduce), *(HOP_KERNELS if comm.size < world.size else ())]
    packers = [packer(kind) for kind in set(orders.kinds.values())]
    compile_s = _compile([*kernels, *packers], world, team.n_threads, on_progress)
    walk = Walk(world, shards, weights, orders.kinds, on_progress)
    if checkpoint is None:
        take_weights(walk, orders.local)
    else:
        serve_weights(walk, checkpoint, orders.local, say)
    return LoadedRank(RankModel(layers, buffers, cache, team, all_reduce), comm, weights, compile_s)


def _all_reduce(comm: MeteredComm, buffers: Buffers, rounding: int) -> AllReduce:
    add_boxes(comm.wire, comm)
    return AllReduce(comm.wire, comm, buffers.sum, buffers.n_rows[1:], rounding)


def _stage_comm(grid: Grid, world: MeteredComm) -> MeteredComm:
    """Of the ranks that share this one's layers; the world itself if these are all."""
    ranks = grid.ranks_with(world.rank)
    return world if len(ranks) == world.size else MeteredComm(world.part(ranks))


def _reserve(orders: Orders, rank: int, shard: Shard, host: Host, n_threads: int) -> tuple[Weights, Buffers, KvCache]:
    """All memory that grows with the model, before anything is sent. UsageError if it is not to be had."""
    config = orders.config
    try:
        weights = Weights(config, shard, orders.kinds)
        buffers = Buffers(config, shard, orders.chunk_rows, n_threads, orders.context)
        return weights, buffers, KvCache(config, shard, orders.n_slots, orders.context, orders.half_cache)
    except (MemoryError, OSError) as error:
        needed = rank_memories(config, [shard], orders.kinds, orders.context, orders.half_cache)[0]
        raise UsageError(
            f"rank {rank} on {host} needs {needed.total_bytes / 1e9:.1f} GB and cannot have it "
            f"({error or 'out of memory'}); use more ranks, a smaller --max-seq-len or fewer other programs"
        ) from error


def _compile(functions: Sequence[Compilable], comm: MeteredComm, n_threads: int, on_progress: Progress) -> float:
    """Everything that the model runs, on all hosts, before weights travel; seconds that this rank needed.

    AgreedFailure where a rank cannot keep what it compiles.
    """
    with agreed(comm):
        failure = None
        started = time.perf_counter()
        try:
            warm_up(functions, on_progress, _n_helpers(n_threads))
            settle_patterns(readers_of([each for each in functions if isinstance(each, Kernel)]))
        except DllamaError as error:
            failure = error
        seconds = time.perf_counter() - started
        wait_for_kernels(comm, on_progress)  # also by a rank that failed: the others wait for its word
        if failure is not None:
            raise failure
    return seconds


def _n_helpers(n_threads: int) -> int:
    """Processes that compile beside this one: for each core of this rank one, while there is memory."""
    free_bytes = free_memory().shared_bytes
    affordable = MOST_HELPERS if free_bytes is None else free_bytes // HELPER_BYTES - 1
    return max(0, min(n_threads - 1, MOST_HELPERS, affordable))
