"""At the root: what all ranks found out about the wanted rows of the last step, as far as somebody asks."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dllama_py.engine.cost import FREE
from dllama_py.engine.meter import Meter
from dllama_py.engine.protocol import Mail, Message
from dllama_py.engine.rank_logits import RankLogits
from dllama_py.engine.scores import Ask, Scores
from dllama_py.engine.step import Floats
from dllama_py.model.rank_model import RankModel
from dllama_py.sharding.plan import Shard
from dllama_py.transport.metered import MeteredComm

NO_SHARES = np.empty((0, 2), np.float64)


class AllLogits:
    """All ranks' parts; the other ranks wait in `serve`, or are about to send what the step asked for."""

    def __init__(self, model: RankModel, comm: MeteredComm, shards: Sequence[Shard], mail: Mail) -> None:
        self.model = model
        self.comm = comm
        self.mail = mail
        self.own = RankLogits(model, shards[comm.rank])
        self._vocab = [len(shard.vocab) for shard in shards]
        self._answers = np.zeros((comm.size, model.buffers.candidates.size), np.int64)

    def rows(self, n_rows: int) -> Floats:
        """float32 [W, V], which the other ranks are about to send."""
        return self._joined(self.own.rows(n_rows))

    def row(self, number: int) -> Floats:
        """float32 [V], of one wanted row."""
        self.mail.tell(Message.LOGITS, number)
        logits: Floats = self._joined(self.own.rows(number + 1)[number:])[0]
        return logits

    def scores(self, asks: Sequence[Ask], n_candidates: int) -> tuple[Scores, ...]:
        """Of each wanted row."""
        answers = self._answers_of_all(self.own.candidates(len(asks), n_candidates))
        found = []
        for row, ask in enumerate(asks):
            shares = _shares(answers[:, row, n_candidates:]) if ask.temperature else NO_SHARES
            found.append(Scores(ask, answers[:, row, :n_candidates], shares, RestOfRow(self, row, ask)))
        return tuple(found)

    def draw(self, row: int, share: int, part: float, temperature: float) -> int:
        """An id of a share of the vocabulary, drawn by the rank that holds it."""
        owner = self.own.owner(share)
        if owner == self.comm.rank:
            return self.own.draw(row, share, part, temperature)
        self.mail.tell(Message.DRAW, row, share, *np.array([part, temperature]).view(np.int64).tolist())
        drawn = np.empty(1, np.int64)
        self.comm.recv(drawn, owner)
        return int(drawn[0])

    def _answers_of_all(self, own: NDArray[np.int64]) -> NDArray[np.int64]:
        """[W, n] of each rank -> [N, W, n]."""
        if self.comm.size == 1:
            return own[np.newaxis]
        answers = self._answers[:, : own.size]
        self.comm.gather(own.reshape(-1), list(answers))
        return answers.reshape(len(answers), *own.shape)

    def _joined(self, own: Floats) -> Floats:
        """Every rank's columns [W, V / N] side by side."""
        if self.comm.size == 1:
            return own.copy()
        parts = [np.empty((len(own), columns), np.float32) for columns in self._vocab]
        self.comm.gather(np.ascontiguousarray(own), parts)
        return np.concatenate(parts, axis=1)


class RestOfRow:
    """What the root does not know yet of one wanted row. `cost`: of asking, so far."""

    def __init__(self, all_logits: AllLogits, row: int, ask: Ask) -> None:
        self.cost = FREE
        self._all = all_logits
        self._row = row
        self._ask = ask

    def logits(self) -> Floats:
        """float32 [n_tokens]."""
        meter = Meter(self._all.model, self._all.comm)
        logits = self._all.row(self._row)[: self._ask.n_tokens]
        self.cost += meter.cost(0)
        return logits

    def draw(self, share: int, part: float) -> int:
        """See `scores.Rest`."""
        meter = Meter(self._all.model, self._all.comm)
        drawn = self._all.draw(self._row, share, part, self._ask.temperature)
        self.cost += meter.cost(0)
        return drawn


def _shares(words: NDArray[np.int64]) -> NDArray[np.float64]:
    """[N, 2 * shares of a rank] -> float64 [P, 2]."""
    return np.ascontiguousarray(words).view(np.float64).reshape(-1, 2)
