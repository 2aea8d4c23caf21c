"""One rank's part of what a step found out about its wanted rows."""

from collections import deque

import numpy as np
from numpy.typing import NDArray

from dllama_py.engine.sampler import draw_within
from dllama_py.engine.step import Floats
from dllama_py.model.rank_model import RankModel
from dllama_py.sharding.plan import Shard

Step = tuple[Floats, NDArray[np.int64]]  # of its wanted rows the logits, and below which id these may be chosen


class RankLogits:
    """Views of the model's buffers, valid until the next step; and copies of the `n_kept` steps before it."""

    def __init__(self, model: RankModel, shard: Shard, n_kept: int = 0) -> None:
        self._buffers = model.buffers
        self._vocab = shard.vocab
        self._shares = shard.vocab_shares(model.config)
        self._first_share = shard.rank * shard.n_leaves
        self._kept: deque[Step] = deque(maxlen=n_kept)
        self._n_ranks = shard.n_ranks

    @property
    def n_shares(self) -> int:
        """Of the vocabulary, on this rank."""
        return len(self._shares) - 1

    def keep(self) -> None:
        """Before a step: the last one may be looked at later, unless its logits were told at once."""
        if self._kept.maxlen:
            n_wanted = int(self._buffers.n_wanted[1]) if self._buffers.n_candidates[0] else 0
            logits, n_tokens = self._step(0)
            self._kept.append((logits[:n_wanted].copy(), n_tokens[:n_wanted].copy()))

    def rows(self, n_rows: int, age: int = 0) -> Floats:
        """float32 [W, columns of the vocabulary here]. `age`: of the step, how many have run since."""
        return self._step(age)[0][:n_rows, : len(self._vocab)]

    def candidates_of_all(self, n_rows: int, n_candidates: int) -> NDArray[np.int64]:
        """int64 [N, W, C + 2 * shares], at the first rank: keys, then two float64 of each share, as the kernels leave
        them.
        """
        width = n_candidates + 2 * self.n_shares
        gathered = self._buffers.candidates_of_all if self._n_ranks > 1 else self._buffers.candidates[np.newaxis]
        return gathered[:, : n_rows * width].reshape(-1, n_rows, width)

    def owner(self, share: int) -> int:
        """The rank that holds a share of the vocabulary."""
        return share // self.n_shares

    def draw(self, row: int, share: int, part: float, temperature: float, age: int = 0) -> int:
        """The id at which the running sum over one of this rank's shares exceeds that part of it."""
        logits, n_tokens = self._step(age)
        own = share - self._first_share
        n_columns = int(n_tokens[row]) - self._vocab.start
        start, stop = self._shares[own], min(self._shares[own + 1], n_columns)
        return self._vocab.start + start + draw_within(logits[row, start:stop], part, temperature)

    def _step(self, age: int) -> Step:
        return self._kept[-age] if age else (self._buffers.logits, self._buffers.n_tokens)
