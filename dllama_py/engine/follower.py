"""What a rank does that leads no stage: it computes what its leader says, until it says stop."""

import numpy as np

from dllama_py.engine.all_logits import row_parts
from dllama_py.engine.collector import paused_collector, settle, unsettle
from dllama_py.engine.hop_report import tell_hops
from dllama_py.engine.protocol import Mail, Message
from dllama_py.engine.rank_logits import RankLogits
from dllama_py.engine.residual_check import send_hashes
from dllama_py.engine.stage import memory_report, read_seconds
from dllama_py.engine.step import Floats
from dllama_py.model.rank_model import RankModel, Step
from dllama_py.sharding.plan import Shard
from dllama_py.transport.hop import HopTraffic
from dllama_py.transport.metered import MeteredComm


def serve(model: RankModel, world: MeteredComm, comm: MeteredComm, shard: Shard, n_kept: int) -> None:
    """`comm`: of the stage, whose rank 0 leads it. `n_kept`: see stage.Stage."""
    settle()
    with paused_collector():
        follower = _Follower(model, world, comm, shard, n_kept)
        while follower.obey():
            pass
    unsettle()


def obey_all(kind: Message, words: list[int], model: RankModel, world: MeteredComm, traffic: HopTraffic) -> None:
    """What a message asks of every rank of the world but the root. `traffic`: from other stages to it."""
    match kind, words:
        case Message.CUT, [slot, length, *_]:
            model.cache.cut(slot, length)
        case Message.REPORT, _:
            world.gather(memory_report(), None)
        case Message.READ, _:
            world.gather(read_seconds(model, world), None)
        case Message.HASH_ALL, _:
            model.hash_every = 1
        case Message.HOPS, _:
            tell_hops(world, traffic)


class _Follower:
    def __init__(self, model: RankModel, world: MeteredComm, comm: MeteredComm, shard: Shard, n_kept: int) -> None:
        self._model = model
        self._world = world
        self._comm = comm
        self._mail = Mail(comm, model.buffers.max_rows, model.config.width)
        self._own = RankLogits(model, shard, n_kept)
        self._has_head = shard.has_head

    def obey(self) -> bool:
        """Does what the next message says; False if that is to stop."""
        kind, words = self._mail.hear()
        match kind, words:
            case Message.STOP, _:
                return False
            case Message.FORWARD, [n_rows, n_wanted, n_candidates, *_]:
                self._forward(*self._mail.hear_step(n_rows, n_wanted, n_candidates))
            case Message.LOGITS, [row, age, *_]:
                self._comm.gather(np.ascontiguousarray(self._own.rows(row + 1, age)[row:]), None)
            case Message.DRAW, [row, age, share, *floats] if self._own.owner(share) == self._comm.rank:
                part, temperature = np.array(floats[:2]).view(np.float64).tolist()
                drawn = self._own.draw(row, share, part, temperature, age)
                self._comm.send(np.array([drawn], np.int64), 0)
            case Message.HASHES, [n_rows, of_leaves, *_]:
                send_hashes(self._model, self._comm, n_rows, bool(of_leaves))
            case _:
                obey_all(kind, words, self._model, self._world, HopTraffic())
        return True

    def _forward(self, step: Step, x: Floats) -> None:
        self._own.keep()
        self._model.buffers.x[: len(x)] = x
        self._model.forward(step)
        if self._has_head and step.wanted and not step.n_candidates:
            own = self._own.rows(len(step.wanted))
            for part in row_parts(len(own)):
                self._comm.gather(np.ascontiguousarray(own[part]), None)
