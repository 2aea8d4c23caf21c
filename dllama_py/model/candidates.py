"""The instructions behind the logits: what the root needs to know of them to choose a token."""

import numpy as np

from dllama_py.config import ModelConfig
from dllama_py.kernels import candidates
from dllama_py.kernels.gather import gather
from dllama_py.kernels.program import Instruction
from dllama_py.model.buffers import Buffers
from dllama_py.sharding.plan import Shard
from dllama_py.wire import Wire


class Candidates:
    """Makes instructions; holds the small constant array that one of them points to."""

    def __init__(self, config: ModelConfig, shard: Shard, buffers: Buffers) -> None:
        self._shard = shard
        self._buffers = buffers
        self._vocab_shares = np.array(shard.vocab_shares(config), np.int64)

    def find(self) -> Instruction:
        """Each thread's best candidates, and the sums of the shares of the vocabulary."""
        b = self._buffers
        return candidates.find_candidates(
            n_rows=b.n_wanted[1:],
            n_candidates=b.n_candidates,
            n_tokens=b.n_tokens,
            inverse_temperatures=b.inverse_temperatures,
            logits=b.logits,
            stride=b.logits.strides[0],
            first_id=self._shard.vocab.start,
            borders=self._vocab_shares,
            n_shares=self._shard.n_leaves,
            lists=b.candidate_lists,
            out=b.candidates,
        )

    def merge(self) -> Instruction:
        """The rank's best candidates."""
        b = self._buffers
        return candidates.merge_candidates(
            n_rows=b.n_wanted[1:],
            n_candidates=b.n_candidates,
            n_shares=self._shard.n_leaves,
            lists=b.candidate_lists,
            out=b.candidates,
        )

    def gathered(self, wire: Wire) -> Instruction:
        """Those of all ranks come to the first."""
        b, shard = self._buffers, self._shard
        return gather(
            n_rows=b.n_wanted[1:],
            n_candidates=b.n_candidates,
            n_shares=shard.n_leaves,
            candidates=b.candidates,
            of_all=b.candidates_of_all if shard.rank == 0 else 0,
            stride=b.candidates_of_all.strides[0],
            rank=shard.rank,
            ranks=shard.n_ranks,
            wire=wire.words,
        )
