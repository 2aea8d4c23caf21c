"""What each rank does once it is loaded: the root runs steps, leaders of other stages lead, all others follow."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dllama_py.engine.chain import Chain
from dllama_py.engine.follower import serve
from dllama_py.engine.hops import Hops
from dllama_py.engine.leader import Ways, lead
from dllama_py.engine.recalls import RecallReceiver, RecallSender
from dllama_py.engine.runner import Runner
from dllama_py.engine.stage import Stage
from dllama_py.formats.checkpoint import Checkpoint, Embedding
from dllama_py.kernels.team import Team
from dllama_py.loading import LoadedRank
from dllama_py.orders import Orders
from dllama_py.sharding.grid import Grid, steps_in_flight
from dllama_py.sharding.plan import Shard
from dllama_py.transport.comm import Comm
from dllama_py.transport.metered import MeteredComm


@contextmanager
def take_role(
    rank: LoadedRank,
    team: Team,
    orders: Orders,
    shards: Sequence[Shard],
    world: MeteredComm,
    checkpoint: Checkpoint | None,
) -> Iterator[Runner | None]:
    """At the root a Runner, which is stopped in the end; on the others None, once it was."""
    world.barrier()  # whoever is still loading is not missed; from here on leaders miss each other
    grid = orders.grid(world.size)
    n_kept = steps_in_flight(len(grid.stages)) - 1  # steps that overtake an answer on its way
    beside = world.part(range(world.size)) if n_kept else world  # for what does not wait for the chain
    if rank.comm.rank:
        serve(rank.model, world, rank.comm, shards[world.rank], n_kept)
        yield None
        return
    stage = Stage(rank.model, rank.comm, [shards[other] for other in grid.ranks_with(world.rank)], n_kept, world.rank)
    hops = Hops(world, team, rank.model, orders.activations, len(grid.stages), len(grid.stages[-1].ranks))
    if checkpoint is None:
        _lead(stage, world, grid, hops, beside)
        yield None
    else:
        chain = _chain(grid, hops, beside) if len(grid.stages) > 1 else None
        idle = [hops.onward(other) for other in grid.idle]
        runner = Runner(stage, world, Embedding(checkpoint).rows, chain, idle)
        yield runner
        runner.stop()
    hops.close()


def run_alone(rank: LoadedRank, checkpoint: Checkpoint) -> Runner:
    """Of a model that this rank has to itself."""
    stage = Stage(rank.model, rank.comm, [rank.weights.shard], n_kept=0)
    return Runner(stage, rank.comm, Embedding(checkpoint).rows, None, ())


def _chain(grid: Grid, hops: Hops, beside: Comm) -> Chain:
    """The stages behind the root's."""
    leaders = [stage.leader for stage in grid.stages[1:]]
    answers, n_last = hops.answers(leaders[-1]), len(grid.stages[-1].ranks)
    return Chain(hops.onward(leaders[0]), answers, RecallSender(beside, leaders), leaders, n_last)


def _lead(stage: Stage, world: MeteredComm, grid: Grid, hops: Hops, beside: Comm) -> None:
    """An idle rank hears the root alone."""
    number = grid.number_of(world.rank)
    if number is None:
        lead(stage, world, Ways(hops.arriving(0)))
        return
    arriving = hops.arriving(grid.stages[number - 1].leader)
    is_last = number == len(grid.stages) - 1
    onward = None if is_last else hops.onward(grid.stages[number + 1].leader)
    recalled = RecallReceiver(beside, len(grid.stages))
    lead(stage, world, Ways(arriving, onward, hops.answering(0) if is_last else None, recalled))
    recalled.close()
