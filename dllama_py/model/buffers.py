"""The memory of one step on one rank: the rows' list, activations, partial sums. Made once, used by every step."""

from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from dllama_py.blocks import FloatType
from dllama_py.config import ModelConfig
from dllama_py.kernels.keys import MOST_CANDIDATES
from dllama_py.kernels.layout import GROUP, X_BLOCK_BYTES, n_groups, scratch_bytes
from dllama_py.sharding.plan import Shard

_T = TypeVar("_T", bound=np.generic)


class Zeros(Protocol):
    """Makes arrays: `np.zeros`, or something that only counts."""

    def __call__(self, shape: int | tuple[int, ...], dtype: type[_T], /) -> NDArray[_T]: ...


class HiddenRows:
    """What a feed-forward has between its products, for F columns: floats and their quantised form for `down`."""

    def __init__(self, n_rows: int, f: int, zeros: Zeros) -> None:
        self.gate = zeros((n_rows, f), np.float32)
        self.up = zeros((n_rows, f), np.float32)
        self.floats = zeros((n_rows, f), np.float32)
        self.quantized = zeros((n_rows, f // 32 * X_BLOCK_BYTES), np.uint8)

    def form_for(self, down: FloatType) -> NDArray[Any]:
        """What weights of this type are multiplied with."""
        return self.floats if down.is_float else self.quantized

    @property
    def n_bytes(self) -> int:
        return self.gate.nbytes + self.up.nbytes + self.floats.nbytes + self.quantized.nbytes


class Buffers:
    """Room for up to `max_rows` rows. Shapes are local to the rank; H, K, F count its own heads and columns."""

    def __init__(
        self,
        config: ModelConfig,
        shard: Shard,
        max_rows: int,
        n_threads: int,
        context: int,
        zeros: Zeros = np.zeros,
    ) -> None:
        t, d, k = max_rows, config.width, max(config.n_active_experts, 1)
        h, kv = len(shard.heads) * config.head_width, len(shard.kv_heads) * config.head_width
        v = n_groups(len(shard.vocab)) * 16 if shard.has_head else 0
        self.max_rows = t
        self.rows = zeros((t, 2), np.int64)  # position, address of the slot's page table
        self.n_rows = zeros(2, np.int64)  # [0, T], the borders of a matrix that all rows use
        self.wanted = zeros(t, np.int64)  # rows whose logits are asked for
        self.n_wanted = zeros(2, np.int64)
        self.n_pairs = zeros(2, np.int64)  # (row, chosen expert) pairs
        self.identity = np.arange(t * k, dtype=np.int64)

        self.x = zeros((t, d), np.float32)  # the residual stream
        self.normed = zeros((t, d), np.float32)
        self.normed_q = zeros((t, d // 32 * X_BLOCK_BYTES), np.uint8)
        self.q = zeros((t, h), np.float32)
        self.k = zeros((t, kv), np.float32)
        self.v = zeros((t, kv), np.float32)
        self.attended = zeros((t, h), np.float32)
        self.attended_q = zeros((t, h // 32 * X_BLOCK_BYTES), np.uint8)
        self.hidden = HiddenRows(t * k, len(shard.hidden), zeros)
        self.shared = HiddenRows(t, len(shard.shared), zeros)
        self.leaves = zeros((shard.n_leaves, t, d), np.float32)
        self.sum = zeros((t, d), np.float32)
        self.wanted_x = zeros((t, d), np.float32)
        self.logits = zeros((t, v + GROUP), np.float32)
        self.scratch = zeros((n_threads, scratch_bytes(context)), np.uint8)

        self.n_candidates = zeros(1, np.int64)  # of each wanted row; 0: the logits themselves are wanted
        self.n_tokens = zeros(t, np.int64)  # of each wanted row: ids below may be chosen
        self.inverse_temperatures = zeros(t, np.float32)
        self.candidate_lists = zeros((t, n_threads, MOST_CANDIDATES), np.int64)
        self.candidates = zeros(t * (MOST_CANDIDATES + 2 * shard.n_leaves), np.int64)
        n_gathered = shard.n_ranks if shard.has_head and shard.rank == 0 and shard.n_ranks > 1 else 0
        self.candidates_of_all = zeros((n_gathered, self.candidates.size), np.int64)

        self.router_logits = zeros((t, n_groups(config.n_experts) * 16), np.float32)
        self.expert_starts = zeros(config.n_experts + 1, np.int64)
        self.pair_rows = zeros(t * k, np.int64)
        self.pairs = zeros(t * k, np.int64)
        self.pair_factors = zeros(t * k, np.float32)
        self.chosen = zeros((t, k), np.int64)
        self.shared_logits = zeros((t, GROUP), np.float32)
        self.shared_factors = zeros(t, np.float32)

    @property
    def n_bytes(self) -> int:
        arrays = sum(array.nbytes for array in vars(self).values() if isinstance(array, np.ndarray))
        return arrays + self.hidden.n_bytes + self.shared.n_bytes
