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


@dataclass(frozen=True, slots=True)
class Rows:
    """Which rows a product takes and where their outputs go: entries from `starts[e]` on are those of matrix e."""

    starts: Ints  # [matrices + 1]
    taken: Ints
    written: Ints


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
        self._all_rows = Rows(buffers.n_rows, buffers.identity, buffers.identity)

    def attention(self, layer: int) -> Iterator[Part]:
        """x += o(attention(norm(x)))."""
        b, matrices = self._buffers, [self._weights.matrix(role, layer) for role in ("q", "k", "v")]
        yield self._norm(self._weights.vector("attention_norm", layer), matrices)
        for matrix, out in zip(matrices, (b.q, b.k, b.v), strict=True):
            yield self._product(matrix, self._all_rows, self._normed(matrix), out, barrier=out is b.v)
        yield self._prepare_heads(layer)
        yield self._attend(layer)
        output = self._weights.matrix("o", layer)
        if not output.kind.is_float:
            yield self._quantize_attended()
        attended = b.attended if output.kind.is_float else b.attended_q
        yield self._partial_products(output, self._all_rows, attended, b.leaves, self._head_leaves)
        yield from self._add_up()

    def dense_feed_forward(self, layer: int) -> Iterator[Part]:
        """x += down(silu(gate(norm(x))) * up(norm(x)))."""
        b = self._buffers
        gate, up, down = (self._weights.matrix(role, layer) for role in ("gate", "up", "down"))
        yield self._norm(self._weights.vector("ffn_norm", layer), [gate, up])
        yield self._product(gate, self._all_rows, self._normed(gate), b.gate, barrier=False)
        yield self._product(up, self._all_rows, self._normed(up), b.up)
        yield self._gated_hidden(down, b.n_rows)
        yield self._partial_products(down, self._all_rows, self._hidden(down), b.leaves, self._hidden_leaves)
        yield from self._add_up()

    def mixture_of_experts(self, layer: int) -> Iterator[Part]:
        """x += sum over the chosen experts of weight * down(silu(gate) * up)."""
        b = self._buffers
        router, gate, up, down = (self._weights.matrix(role, layer) for role in ("router", "gate", "up", "down"))
        yield self._norm(self._weights.vector("ffn_norm", layer), [router, gate, up])
        yield self._product(router, self._all_rows, b.normed, b.router_logits)
        yield self._route()
        pairs = Rows(b.expert_starts, taken=b.pair_rows, written=b.pairs)
        yield self._product(gate, pairs, self._normed(gate), b.gate, barrier=False)
        yield self._product(up, pairs, self._normed(up), b.up)
        yield self._gated_hidden(down, b.n_pairs)
        yield self._expert_sums(down)
        yield from self._add_up()

    def head(self) -> list[Instruction]:
        """Logits of the wanted rows."""
        b, head = self._buffers, self._weights.matrix("head")
        rows = memory.copy_rows(
            n_rows=b.n_wanted[1:],
            x=b.x,
            stride=b.x.strides[0],
            x_rows=b.wanted,
            width=self.config.width,
            out=b.wanted_x,
        )
        norm = self._norm_of(b.wanted_x, b.n_wanted, self._weights.vector("final_norm"), [head])
        wanted = Rows(b.n_wanted, b.identity, b.identity)
        return [rows, norm, self._product(head, wanted, self._normed(head), b.logits)]

    def _normed(self, consumer: Matrix) -> Array:
        return self._buffers.normed if consumer.kind.is_float else self._buffers.normed_q

    def _hidden(self, consumer: Matrix) -> Array:
        return self._buffers.hidden if consumer.kind.is_float else self._buffers.hidden_q

    def _norm(self, weight: Floats, consumers: Sequence[Matrix]) -> Instruction:
        return self._norm_of(self._buffers.x, self._buffers.n_rows, weight, consumers)

    def _norm_of(self, x: Floats, counts: Ints, weight: Floats, consumers: Sequence[Matrix]) -> Instruction:
        """Normed rows in the forms that the consumers want."""
        b = self._buffers
        return elementwise.norm(
            n_rows=counts[1:],
            x=x,
            x_stride=x.strides[0],
            x_rows=b.identity,
            weight=weight,
            n_blocks=self.config.width // BLOCK,
            epsilon=self._epsilon,
            out_f32=b.normed if any(m.kind.is_float for m in consumers) else 0,
            out_q=b.normed_q if any(not m.kind.is_float for m in consumers) else 0,
        )

    def _quantize_attended(self) -> Instruction:
        b = self._buffers
        return elementwise.quantize(
            n_rows=b.n_rows[1:],
            x=b.attended,
            x_stride=b.attended.strides[0],
            n_blocks=b.attended.shape[1] // BLOCK,
            out_q=b.attended_q,
        )

    def _product(self, matrix: Matrix, rows: Rows, x: Array, out: Floats, barrier: bool = True) -> Instruction:
        """out [rows, N] = matrix x rows."""
        whole = self._whole.setdefault(matrix.n_blocks, np.array([0, matrix.n_blocks], np.int64))
        return self._partial_products(matrix, rows, x, out[np.newaxis], whole, barrier)

    def _partial_products(
        self, matrix: Matrix, rows: Rows, x: Array, out: Floats, leaves: Ints, barrier: bool = True
    ) -> Instruction:
        """out[i] [rows, N] = matrix x rows, over the columns of leaf i."""
        return matmul(matrix.kind)(
            starts=rows.starts,
            x=x,
            x_stride=x.strides[0],
            x_rows=rows.taken,
            weights=matrix.packed,
            n_groups=matrix.n_groups,
            n_blocks=matrix.n_blocks,
            out=out,
            out_stride=out.strides[1],
            out_rows=rows.written,
            leaves=leaves,
            n_leaves=len(leaves) - 1,
            leaf_stride=out.strides[0],
            n_experts=matrix.n_matrices,
            barrier=barrier,
        )

    def _expert_sums(self, matrix: Matrix) -> Instruction:
        """leaves[i][row] = weighted sum over the row's experts, over the columns of leaf i."""
        b, x = self._buffers, self._hidden(matrix)
        return matmul_weighted(matrix.kind)(
            starts=b.expert_starts,
            x=x,
            x_stride=x.strides[0],
            x_rows=b.pairs,
            weights=matrix.packed,
            n_groups=matrix.n_groups,
            n_blocks=matrix.n_blocks,
            out=b.leaves,
            out_stride=b.leaves.strides[1],
            out_rows=b.pair_rows,
            leaves=self._hidden_leaves,
            n_leaves=self._shard.n_leaves,
            leaf_stride=b.leaves.strides[0],
            n_experts=matrix.n_matrices,
            factors=b.pair_factors,
            n_rows=b.n_rows[1:],
        )

    def _route(self) -> Instruction:
        """Each row's experts and their weights, as lists of pairs (row, expert)."""
        b = self._buffers
        return routing.route(
            n_rows=b.n_rows[1:],
            logits=b.router_logits,
            stride=b.router_logits.strides[0],
            n_experts=self.config.n_experts,
            n_chosen=self.config.n_active_experts,
            starts=b.expert_starts,
            rows=b.pair_rows,
            pairs=b.pairs,
            factors=b.pair_factors,
            chosen=b.chosen,
        )

    def _prepare_heads(self, layer: int) -> Instruction:
        """Head norms and RoPE; keys and values go into the cache."""
        b, has_norms = self._buffers, self.config.has_qk_norm
        return prepare_heads(self._cache.half, self.config.rope_pairs is RopePairs.ADJACENT)(
            n_rows=b.n_rows[1:],
            q=b.q,
            k=b.k,
            v=b.v,
            q_stride=b.q.strides[0],
            kv_stride=b.k.strides[0],
            q_heads=len(self._shard.heads),
            kv_heads=len(self._shard.kv_heads),
            head_width=self.config.head_width,
            q_norm=self._weights.vector("q_norm", layer) if has_norms else 0,
            k_norm=self._weights.vector("k_norm", layer) if has_norms else 0,
            epsilon=self._epsilon,
            cos=self._rope.cos,
            sin=self._rope.sin,
            rows=b.rows,
            k_cache=self._cache.keys(layer),
            v_cache=self._cache.values(layer),
        )

    def _attend(self, layer: int) -> Instruction:
        b = self._buffers
        return attention(self._cache.half)(
            n_rows=b.n_rows[1:],
            q=b.q,
            q_stride=b.q.strides[0],
            head_width=self.config.head_width,
            kv_heads=len(self._shard.kv_heads),
            head_groups=self._head_groups,
            rows=b.rows,
            k_cache=self._cache.keys(layer),
            v_cache=self._cache.values(layer),
            out=b.attended,
            out_stride=b.attended.strides[0],
            scratch=b.scratch,
            scratch_stride=b.scratch.strides[0],
            scale=self._scale,
        )

    def _gated_hidden(self, down: Matrix, counts: Ints) -> Instruction:
        """silu(gate) * up in the form that `down` wants."""
        b, is_float = self._buffers, down.kind.is_float
        return elementwise.gated_hidden(
            n_rows=counts[1:],
            gate=b.gate,
            up=b.up,
            stride=b.gate.strides[0],
            n_blocks=b.gate.shape[1] // BLOCK,
            out_f32=b.hidden if is_float else 0,
            out_q=0 if is_float else b.hidden_q,
        )

    def _add_up(self) -> Iterator[Part]:
        """Leaves to the rank's sum, the ranks' sums to one, that to the residual stream."""
        b, n_blocks = self._buffers, self.config.width // BLOCK
        yield elementwise.tree_sum(
            n_rows=b.n_rows[1:],
            leaves=b.leaves,
            leaf_stride=b.leaves.strides[0],
            n_leaves=self._shard.n_leaves,
            n_blocks=n_blocks,
            rounding=self._rounding,
            out=b.sum,
        )
        yield Exchange()
        yield elementwise.add(n_rows=b.n_rows[1:], x=b.x, y=b.sum, n_blocks=n_blocks)
