"""The instructions of a mixture of experts: who goes where, and the weighted sums of what the experts say."""

import numpy as np

from dllama_py.blocks import Floats
from dllama_py.config import ModelConfig
from dllama_py.kernels import routing
from dllama_py.kernels.bias import add_expert_bias
from dllama_py.kernels.layout import GROUP
from dllama_py.kernels.matmul import matmul_weighted
from dllama_py.kernels.program import Instruction
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
        b, x = self._buffers, self._buffers.hidden.form_for(matrix.kind)
        return matmul_weighted(matrix.kind)(
            starts=b.expert_starts,
            x=x,
            x_stride=x.strides[0],
            x_rows=b.pairs,
            weights=matrix.packed,
            n_groups=matrix.n_groups,
            n_blocks=matrix.n_blocks,
            phase=matrix.phase,
            out=b.leaves,
            out_stride=b.leaves.strides[1],
            out_rows=b.pair_rows,
            leaves=self._hidden_leaves,
            n_leaves=self._shard.n_leaves,
            leaf_stride=b.leaves.strides[0],
            n_experts=matrix.n_matrices,
            factors=b.pair_factors,
            n_rows=b.n_rows[1:],
            barrier=False,
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

    def shared_sum(self, matrix: Matrix) -> Instruction:
        """leaves[i][row] += factor * the shared expert's output, after those of the row's own experts."""
        b, x = self._buffers, self._buffers.shared.form_for(matrix.kind)
        return matmul_weighted(matrix.kind)(
            starts=b.n_rows,
            x=x,
            x_stride=x.strides[0],
            x_rows=b.identity,
            weights=matrix.packed,
            n_groups=matrix.n_groups,
            n_blocks=matrix.n_blocks,
            phase=matrix.phase,
            out=b.leaves,
            out_stride=b.leaves.strides[1],
            out_rows=b.identity,
            leaves=self._shared_leaves,
            n_leaves=self._shard.n_leaves,
            leaf_stride=b.leaves.strides[0],
            n_experts=1,
            factors=b.shared_factors,
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
