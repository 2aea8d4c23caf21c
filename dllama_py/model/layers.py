"""The parts of a layer as instructions, put together from a rank's weights and buffers.

A model page (llama.py, qwen3_moe.py) strings these together. Between `Exchange` and the next part the ranks add
their sums; everything else happens without talking.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dllama_py.blocks import BLOCK
from dllama_py.config import ModelConfig, RopePairs
from dllama_py.kernels import elementwise, memory, routing
from dllama_py.kernels.attention import attention
from dllama_py.kernels.heads import prepare_heads
from dllama_py.kernels.matmul import matmul, matmul_weighted
from dllama_py.kernels.program import Instruction
from dllama_py.model.buffers import Buffers
from dllama_py.model.kv_cache import KvCache
from dllama_py.model.rope import RopeTables
from dllama_py.sharding.plan import Shard
from dllama_py.sharding.weights import Matrix, Weights

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Exchange:
    """Here the ranks add up `buffers.sum`."""


Part = Instruction | Exchange


class Layers:
    """Makes instructions; holds the small constant arrays that these point to."""

    def __init__(
        self, config: ModelConfig, weights: Weights, buffers: Buffers, cache: KvCache, rope: RopeTables, rounding: int
    ) -> None:
        self.config = config
        self._weights = weights
        self._shard: Shard = weights.shard
        self._buffers = buffers
        self._cache = cache
        self._rope = rope
        self._rounding = rounding
        self._epsilon = np.array([config.norm_epsilon], np.float32)
        self._scale = np.array([1 / np.sqrt(np.float32(config.head_width))], np.float32)
        self._head_groups = np.array(self._shard.head_groups(config), np.int64)
        self._head_leaves = np.array(self._shard.head_leaves, np.int64)
        self._hidden_leaves = np.array(self._shard.hidden_leaves, np.int64)
        self._whole: dict[int, Ints] = {}

    def attention(self, layer: int) -> Iterator[Part]:
        """x += o(attention(norm(x)))."""
        b, matrices = self._buffers, [self._weights.matrix(role, layer) for role in ("q", "k", "v")]
        yield self._norm(self._weights.vector("attention_norm", layer), matrices)
        for matrix, out in zip(matrices, (b.q, b.k, b.v), strict=True):
            yield self._product(matrix, self._normed(matrix), out, barrier=out is b.v)
        yield self._prepare_heads(layer)
        yield self._attend(layer)
        output = self._weights.matrix("o", layer)
        if not output.kind.is_float:
            yield elementwise.quantize(
                b.n_rows[1:], b.attended, b.attended.strides[0], b.q.shape[1] // 32, b.attended_q
            )
        yield self._partial_sums(output, b.attended if output.kind.is_float else b.attended_q, self._head_leaves)
        yield from self._add_up()

    def dense_feed_forward(self, layer: int) -> Iterator[Part]:
        """x += down(silu(gate(norm(x))) * up(norm(x)))."""
        b = self._buffers
        gate, up, down = (self._weights.matrix(role, layer) for role in ("gate", "up", "down"))
        yield self._norm(self._weights.vector("ffn_norm", layer), [gate, up])
        yield self._product(gate, self._normed(gate), b.gate, barrier=False)
        yield self._product(up, self._normed(up), b.up)
        yield self._gated_hidden(down, b.n_rows)
        yield self._partial_sums(down, b.hidden if down.kind.is_float else b.hidden_q, self._hidden_leaves)
        yield from self._add_up()

    def mixture_of_experts(self, layer: int) -> Iterator[Part]:
        """x += sum over the chosen experts of weight * down(silu(gate) * up)."""
        b = self._buffers
        router, gate, up, down = (self._weights.matrix(role, layer) for role in ("router", "gate", "up", "down"))
        yield self._norm(self._weights.vector("ffn_norm", layer), [router, gate, up])
        yield self._product(router, b.normed, b.router_logits)
        yield self._route()
        for matrix, out in ((gate, b.gate), (up, b.up)):
            yield self._expert_product(matrix, self._normed(matrix), out, barrier=out is b.up)
        yield self._gated_hidden(down, b.n_pairs)
        yield self._expert_sums(down, b.hidden if down.kind.is_float else b.hidden_q)
        yield from self._add_up()

    def head(self) -> list[Instruction]:
        """Logits of the wanted rows."""
        b, head = self._buffers, self._weights.matrix("head")
        rows = memory.copy_rows(b.n_wanted[1:], b.x, b.x.strides[0], b.wanted, self.config.width, b.wanted_x)
        norm = self._norm_of(b.wanted_x, b.n_wanted, self._weights.vector("final_norm"), [head])
        return [rows, norm, self._product(head, self._normed(head), b.logits, counts=b.n_wanted)]

    def _normed(self, consumer: Matrix) -> Array:
        return self._buffers.normed if consumer.kind.is_float else self._buffers.normed_q

    def _norm(self, weight: Floats, consumers: Sequence[Matrix]) -> Instruction:
        return self._norm_of(self._buffers.x, self._buffers.n_rows, weight, consumers)

    def _norm_of(self, x: Floats, counts: Ints, weight: Floats, consumers: Sequence[Matrix]) -> Instruction:
        """Normed rows in the forms that the consumers want."""
        b, n_blocks = self._buffers, self.config.width // BLOCK
        as_floats = b.normed if any(m.kind.is_float for m in consumers) else 0
        quantized = b.normed_q if any(not m.kind.is_float for m in consumers) else 0
        return elementwise.norm(
            counts[1:], x, x.strides[0], b.identity, weight, n_blocks, self._epsilon, as_floats, quantized
        )

    def _product(
        self,
        matrix: Matrix,
        x: Array,
        out: Floats,
        counts: Ints | None = None,
        barrier: bool = True,
    ) -> Instruction:
        """out = matrix x rows."""
        b = self._buffers
        counts = b.n_rows if counts is None else counts
        return matmul(matrix.kind)(
            *(counts, x, x.strides[0], b.identity, matrix.packed, matrix.n_groups, matrix.n_blocks),
            *(out, out.strides[0], b.identity, self._one_leaf(matrix.n_blocks), 1, 0, 1),
            barrier=barrier,
        )

    def _partial_sums(self, matrix: Matrix, x: Array, leaves: Ints) -> Instruction:
        """leaves[i] = matrix x rows, over the columns of leaf i."""
        b = self._buffers
        return matmul(matrix.kind)(
            *(b.n_rows, x, x.strides[0], b.identity, matrix.packed, matrix.n_groups, matrix.n_blocks),
            *(b.leaves, b.leaves.strides[1], b.identity, leaves, self._shard.n_leaves, b.leaves.strides[0], 1),
        )

    def _expert_product(self, matrix: Matrix, x: Array, out: Floats, barrier: bool) -> Instruction:
        """out[pair] = expert's matrix x row of the pair."""
        b = self._buffers
        return matmul(matrix.kind)(
            *(b.expert_starts, x, x.strides[0], b.pair_rows, matrix.packed, matrix.n_groups, matrix.n_blocks),
            *(out, out.strides[0], b.pairs, self._one_leaf(matrix.n_blocks), 1, 0, matrix.n_matrices),
            barrier=barrier,
        )

    def _expert_sums(self, matrix: Matrix, x: Array) -> Instruction:
        """leaves[i][row] = weighted sum over the row's experts, over the columns of leaf i."""
        b = self._buffers
        return matmul_weighted(matrix.kind)(
            *(b.expert_starts, x, x.strides[0], b.pairs, matrix.packed, matrix.n_groups, matrix.n_blocks),
            *(b.leaves, b.leaves.strides[1], b.pair_rows, self._hidden_leaves, self._shard.n_leaves),
            *(b.leaves.strides[0], matrix.n_matrices, b.pair_factors, b.n_rows[1:]),
        )

    def _route(self) -> Instruction:
        b, c = self._buffers, self.config
        return routing.route(
            *(b.n_rows[1:], b.router_logits, b.router_logits.strides[0], c.n_experts, c.n_active_experts),
            *(b.expert_starts, b.pair_rows, b.pairs, b.pair_factors, b.chosen),
        )

    def _prepare_heads(self, layer: int) -> Instruction:
        b, c = self._buffers, self.config
        norms = [self._weights.vector(role, layer) if c.has_qk_norm else 0 for role in ("q_norm", "k_norm")]
        return prepare_heads(self._cache.half, c.rope_pairs is RopePairs.ADJACENT)(
            *(b.n_rows[1:], b.q, b.k, b.v, b.q.strides[0], b.k.strides[0]),
            *(len(self._shard.heads), len(self._shard.kv_heads), c.head_width, *norms, self._epsilon),
            *(self._rope.cos, self._rope.sin, b.rows, self._cache.keys(layer), self._cache.values(layer)),
        )

    def _attend(self, layer: int) -> Instruction:
        b = self._buffers
        return attention(self._cache.half)(
            *(b.n_rows[1:], b.q, b.q.strides[0], self.config.head_width, len(self._shard.kv_heads)),
            *(self._head_groups, b.rows, self._cache.keys(layer), self._cache.values(layer)),
            *(b.attended, b.attended.strides[0], b.scratch, b.scratch.strides[0], self._scale),
        )

    def _gated_hidden(self, down: Matrix, counts: Ints) -> Instruction:
        b, is_float = self._buffers, down.kind.is_float
        return elementwise.gated_hidden(
            *(counts[1:], b.gate, b.up, b.gate.strides[0], b.gate.shape[1] // BLOCK),
            *((b.hidden, 0) if is_float else (0, b.hidden_q)),
        )

    def _add_up(self) -> Iterator[Part]:
        """Leaves to the rank's sum, the ranks' sums to one, that to the residual stream."""
        b, n_blocks = self._buffers, self.config.width // BLOCK
        yield elementwise.tree_sum(
            b.n_rows[1:], b.leaves, b.leaves.strides[0], self._shard.n_leaves, n_blocks, self._rounding, b.sum
        )
        yield Exchange()
        yield elementwise.add(b.n_rows[1:], b.x, b.sum, n_blocks)

    def _one_leaf(self, n_blocks: int) -> Ints:
        return self._whole.setdefault(n_blocks, np.array([0, n_blocks], np.int64))
