"""What a stage's ranks found out about the wanted rows of a step, together; and what the root makes of it."""

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dllama_py.engine.cost import FREE
from dllama_py.engine.meter import Meter
from dllama_py.engine.protocol import Mail, Message, Words
from dllama_py.engine.rank_logits import RankLogits
from dllama_py.engine.scores import Ask, Scores
from dllama_py.engine.step import Floats
from dllama_py.model.memory import GATHERED_ROWS
from dllama_py.sharding.plan import Shard
from dllama_py.transport.metered import MeteredComm

NO_SHARES = np.empty((0, 2), np.float64)


class LogitsSource(Protocol):
    """Tells more of a step than the root got at once: of the wanted row with that number."""

    def row(self, number: int, /) -> Floats:
        """float32 [V]."""

    def draw(self, number: int, share: int, part: float, temperature: float, /) -> int:
        """An id of a share of the vocabulary, drawn by the rank that holds it."""


class StageLogits:
    """At the leader of the last stage: all its ranks' parts. These wait for the leader's next message, or are about to
    send the logits that the step asked for.
    """

    def __init__(self, own: RankLogits, comm: MeteredComm, shards: Sequence[Shard], mail: Mail) -> None:
        self._comm = comm
        self._mail = mail
        self._own = own
        self._vocab = [len(shard.vocab) for shard in shards]

    def rows(self, n_rows: int) -> Floats:
        """float32 [W, V], of the step that has just run; valid until the next."""
        own = self._own.rows(n_rows)
        if self._comm.size == 1:
            return own
        joined = np.empty((n_rows, sum(self._vocab)), np.float32)
        for part in row_parts(n_rows):
            joined[part] = self._joined(own[part])
        return joined

    def candidates(self, n_rows: int, n_candidates: int) -> Words:
        """int64 [N, W, C + 2 * shares of a rank], of the step that has just run; valid until the next."""
        return self._own.candidates_of_all(n_rows, n_candidates)

    def row(self, number: int, age: int = 0) -> Floats:
        """See LogitsSource. `age`: of the step, how many have run since."""
        self._mail.tell(Message.LOGITS, number, age)
        logits: Floats = self._joined(self._own.rows(number + 1, age)[number:])[0]
        return logits

    def draw(self, number: int, share: int, part: float, temperature: float, age: int = 0) -> int:
        """See LogitsSource and `row`."""
        owner = self._own.owner(share)
        if owner == self._comm.rank:
            return self._own.draw(number, share, part, temperature, age)
        self._mail.tell(Message.DRAW, number, age, share, *float_words(part, temperature))
        drawn = np.empty(1, np.int64)
        self._comm.recv(drawn, owner)
        return int(drawn[0])

    def _joined(self, own: Floats) -> Floats:
        """Every rank's columns [W, V / N] side by side."""
        if self._comm.size == 1:
            return own.copy()
        parts = [np.empty((len(own), columns), np.float32) for columns in self._vocab]
        self._comm.gather(np.ascontiguousarray(own), parts)
        return np.concatenate(parts, axis=1)


def row_parts(n_rows: int) -> Iterator[slice]:
    """In which logits of all ranks are gathered: beside the whole, little memory is needed."""
    for start in range(0, n_rows, GATHERED_ROWS):
        yield slice(start, min(start + GATHERED_ROWS, n_rows))


def scores_of(
    asks: Sequence[Ask], candidates: Words, source: LogitsSource, new_meter: Callable[[], Meter]
) -> tuple[Scores, ...]:
    """Of each wanted row. `candidates`: of all ranks, as StageLogits has them."""
    n_candidates = max(ask.n_candidates for ask in asks)
    found = []
    for row, ask in enumerate(asks):
        shares = _shares(candidates[:, row, n_candidates:]) if ask.temperature else NO_SHARES
        rest = RestOfRow(source, row, ask, new_meter)
        found.append(Scores(ask, candidates[:, row, :n_candidates], shares, rest))
    return tuple(found)


class RestOfRow:
    """What the root does not know yet of one wanted row. `cost`: of asking, so far."""

    def __init__(self, source: LogitsSource, row: int, ask: Ask, new_meter: Callable[[], Meter]) -> None:
        self.cost = FREE
        self._source = source
        self._row = row
        self._ask = ask
        self._new_meter = new_meter

    def logits(self) -> Floats:
        """float32 [n_tokens]."""
        meter = self._new_meter()
        logits = self._source.row(self._row)[: self._ask.n_tokens]
        self.cost += meter.cost(0)
        return logits

    def draw(self, share: int, part: float) -> int:
        """See `scores.Rest`."""
        meter = self._new_meter()
        drawn = self._source.draw(self._row, share, part, self._ask.temperature)
        self.cost += meter.cost(0)
        return drawn


def float_words(*values: float) -> list[int]:
    """Floats as words, bit by bit."""
    words: list[int] = np.array(values, np.float64).view(np.int64).tolist()
    return words


def _shares(words: Words) -> NDArray[np.float64]:
    """[N, 2 * shares of a rank] -> float64 [P, 2]."""
    return np.ascontiguousarray(words).view(np.float64).reshape(-1, 2)
