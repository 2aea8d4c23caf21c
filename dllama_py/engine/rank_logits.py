"""One rank's part of what the last step found out about its wanted rows."""

import numpy as np
from numpy.typing import NDArray

from dllama_py.engine.sampler import draw_within
from dllama_py.engine.step import Floats
from dllama_py.model.rank_model import RankModel
from dllama_py.sharding.plan import Shard


class RankLogits:
    """Views of the model's buffers: valid until the next step."""

    def __init__(self, model: RankModel, shard: Shard) -> None:
        self._buffers = model.buffers
        self._vocab = shard.vocab
        self._shares = shard.vocab_shares(model.config)
        self._first_share = shard.rank * shard.n_leaves

    @property
    def n_shares(self) -> int:
        """Of the vocabulary, on this rank."""
        return len(self._shares) - 1

    def rows(self, n_rows: int) -> Floats:
        """float32 [W, columns of the vocabulary here]."""
        return self._buffers.logits[:n_rows, : len(self._vocab)]

    def candidates(self, n_rows: int, n_candidates: int) -> NDArray[np.int64]:
        """int64 [W, C + 2 * shares]: keys, then two float64 of each share, as the kernels leave them."""
        width = n_candidates + 2 * self.n_shares
        return self._buffers.candidates[: n_rows * width].reshape(n_rows, width)

    def owner(self, share: int) -> int:
        """The rank that holds a share of the vocabulary."""
        return share // self.n_shares

    def draw(self, row: int, share: int, part: float, temperature: float) -> int:
        """The id at which the running sum over one of this rank's shares exceeds that part of it."""
        own = share - self._first_share
        n_columns = int(self._buffers.n_tokens[row]) - self._vocab.start
        start, stop = self._shares[own], min(self._shares[own + 1], n_columns)
        return self._vocab.start + start + draw_within(self._buffers.logits[row, start:stop], part, temperature)
