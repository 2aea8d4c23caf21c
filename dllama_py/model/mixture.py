"""The instructions of a mixture of experts: who goes where, and the weighted sums of what the experts say."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dllama_py.blocks import Floats
from dllama_py.config import ModelConfig
from dllama_py.kernels import routing
from dllama_py.kernels.bias import add_expert_bias
from dllama_py.kernels.layout import GROUP
from dllama_py.kernels.matmul import matmul_weighted
from dllama_py.kernels.program import Instruction
from dllama_py.kernels.words import Argument
from dllama_py.model.buffers import Buffers
from dllama_py.sharding.plan import Shard
from dllama_py.sharding.weights import Matrix


class Mixture:
    """Makes instructions; holds the small constant arrays that these point to."""

    def __init__(self, config: ModelConfig, shard: Shard, buffers: Buffers) -> None:
        self._config = config
        self._shard = shard
        self._buffers = buffers
        self._hidden_leaves = np.array(shard.hidden_leaves, np.int64)
        self._shared_leaves = np.array(shard.shared_leaves, np.int64)

    def expert_sums(self, matrix: Matrix) -> Instruction:
        """leaves[i][row] = weighted sum over the row's experts, over the columns of leaf i."""
        b = self._buffers
        return self._weighted_sums(
            matrix,
            b.hidden.form_for(matrix.kind),
            starts=b.expert_starts,
            x_rows=b.pairs,
            out_rows=b.pair_rows,
            leaves=self._hidden_leaves,
            factors=b.pair_factors,
            n_rows=b.n_rows[1:],
        )

    def shared_sum(self, matrix: Matrix) -> Instruction:
        """leaves[i][row] += factor * the shared expert's output, after those of the row's own experts."""
        b = self._buffers
        return self._weighted_sums(
            matrix,
            b.shared.form_for(matrix.kind),
            starts=b.n_rows,
            x_rows=b.identity,
            out_rows=b.identity,
            leaves=self._shared_leaves,
            factors=b.shared_factors,
        )

    def _weighted_sums(self, matrix: Matrix, x: NDArray[Any], **rows: Argument) -> Instruction:
        """`rows`: which rows of x go to which experts, and where their sums go."""
        b = self._buffers
        return matmul_weighted(matrix.kind)(
            x=x,
            x_stride=x.strides[0],
            weights=matrix.packed,
            n_groups=matrix.n_groups,
            n_blocks=matrix.n_blocks,
            phase=matrix.phase,
            out=b.leaves,
            out_stride=b.leaves.strides[1],
            n_leaves=self._shard.n_leaves,
            leaf_stride=b.leaves.strides[0],
            n_experts=matrix.n_matrices,
            barrier=False,
            **rows,
        )

    def add_hidden_bias(self, bias: Floats, out: Floats) -> Instruction:
        """The bias of each pair's expert to its row of gate or up, of this rank's columns."""
        b, hidden = self._buffers, self._shard.hidden
        by_expert = bias.reshape(self._config.n_experts, -1)  # [experts, F]
        return add_expert_bias(
            starts=b.expert_starts,
            n_experts=self._config.n_experts,
            rows=b.pairs,
            x=out,
            stride=out.strides[0],
            bias=by_expert[:, hidden.start : hidden.stop],
            bias_stride=by_expert.strides[0],
            n_groups=out.shape[1] // GROUP,
            barrier=False,
        )

    def add_down_bias(self, bias: Floats) -> Instruction:
        """The weighted biases of each row's experts to the sum, after it was made over all ranks."""
        b, by_expert = self._buffers, bias.reshape(self._config.n_experts, -1)  # [experts, D]
        return add_expert_bias(
            starts=b.expert_starts,
            n_experts=self._config.n_experts,
            rows=b.pair_rows,
            factors=b.pair_factors,
            x=b.sum,
            stride=b.sum.strides[0],
            bias=by_expert,
            bias_stride=by_expert.strides[0],
            n_groups=b.sum.shape[1] // GROUP,
            barrier=False,
        )

    def shared_factors(self) -> Instruction:
        """Each row's weight of the shared expert."""
        b = self._buffers
        return routing.shared_factors(
            n_rows=b.n_rows[1:],
            logits=b.shared_logits,
            stride=b.shared_logits.strides[0],
            factors=b.shared_factors,
            barrier=False,
        )

    def route(self) -> Instruction:
        """Each row's experts and their weights, as lists of pairs (row, expert)."""
        b = self._buffers
        return routing.route(
            n_rows=b.n_rows[1:],
            logits=b.router_logits,
            stride=b.router_logits.strides[0],
            n_experts=self._config.n_experts,
            n_chosen=self._config.n_active_experts,
            starts=b.expert_starts,
            rows=b.pair_rows,
            pairs=b.pairs,
            factors=b.pair_factors,
            chosen=b.chosen,
            weighs_all=int(self._config.weighs_all_experts),
        )
