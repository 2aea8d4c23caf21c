"""The leader's end of one stage: ranks that share some layers. With one stage that is the whole model, at the root."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dllama_py.engine.all_logits import StageLogits
from dllama_py.engine.protocol import Mail, Words
from dllama_py.engine.rank_logits import RankLogits
from dllama_py.engine.residual_check import ResidualCheck
from dllama_py.engine.step import Floats
from dllama_py.model.memory import READ_BYTES
from dllama_py.model.rank_model import READ_TRIES, RankModel, Step
from dllama_py.profiler import peak_rss_bytes, private_bytes
from dllama_py.sharding.plan import Shard
from dllama_py.transport.metered import MeteredComm


@dataclass(frozen=True, slots=True)
class Answer:
    """What a step found out of its wanted rows: their candidates, or their logits, as StageLogits has them."""

    candidates: Words | None = None
    logits: Floats | None = None


NOTHING = Answer()


class Stage:
    """`comm`: of the ranks that share the stage, `shards` theirs. They wait for this one in `follower.serve`.

    `n_kept`: steps before the last one of which more may be asked. `leader`: this one's number in the world.
    """

    def __init__(
        self, model: RankModel, comm: MeteredComm, shards: Sequence[Shard], n_kept: int, leader: int = 0
    ) -> None:
        self.model = model
        self.comm = comm
        self.n_kept = n_kept
        self.mail = Mail(comm, model.buffers.max_rows, model.config.width)
        self._own = RankLogits(model, shards[comm.rank], n_kept)
        self.logits = StageLogits(self._own, comm, shards, self.mail)
        self.residuals = ResidualCheck(model, comm, self.mail, leader)
        self._has_head = shards[comm.rank].has_head

    def forward(self, step: Step, x: Floats) -> Answer:
        """All layers of the stage over the rows x, float32 [T, D]; the last stage knows what was asked for.

        ClusterError if an exchange fails, a rank is lost, or one computes other numbers than the rest.
        """
        self._own.keep()
        self.mail.tell_step(step, x)
        if x.base is not self.model.buffers.x:  # where rows of another stage lie already
            self.model.buffers.x[: len(x)] = x
        self.model.forward(step)
        answer = self._answer(step) if self._has_head and step.wanted else NOTHING
        self.residuals.after_step(step.positions)
        return answer

    def _answer(self, step: Step) -> Answer:
        n_wanted = len(step.wanted)
        if step.n_candidates:
            return Answer(candidates=self.logits.candidates(n_wanted, step.n_candidates))
        return Answer(logits=self.logits.rows(n_wanted))


def memory_report() -> NDArray[np.int64]:
    """int64 [2]: private and peak resident bytes of this process."""
    return np.array([private_bytes(), peak_rss_bytes()], np.int64)


def read_seconds(model: RankModel, world: MeteredComm) -> NDArray[np.float64]:
    """float64 [tries]: of streaming this rank's part of READ_BYTES, all ranks of the world at once."""
    seconds = np.array(model.read_seconds(READ_BYTES // world.size, world.barrier), np.float64)
    assert len(seconds) == READ_TRIES
    return seconds
