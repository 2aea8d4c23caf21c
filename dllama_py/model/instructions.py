"""The instructions of a layer: every kernel with the weights and buffers of a rank, word by word.

What the words hold is declared beside each kernel. `layers.py` puts the instructions in order.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dllama_py.blocks import BLOCK
from dllama_py.config import Activation, ModelConfig, RopePairs
from dllama_py.kernels import elementwise, memory
from dllama_py.kernels.attention import attention
from dllama_py.kernels.bias import add_bias
from dllama_py.kernels.heads import prepare_heads
from dllama_py.kernels.layout import GROUP
from dllama_py.kernels.matmul import matmul
from dllama_py.kernels.program import Instruction
from dllama_py.model.buffers import Buffers, HiddenRows
from dllama_py.model.kv_cache import KvCache
from dllama_py.model.rope import RopeTables
from dllama_py.sharding.weights import Matrix, Weights

Ints = NDArray[np.int64]
Floats = NDArray[np.float32]
Array = NDArray[Any]

_HIDDEN = {
    Activation.SILU: elementwise.gated_hidden,
    Activation.GELU: elementwise.gelu_hidden,
    Activation.CLAMPED_SWIGLU: elementwise.clamped_hidden,
}


@dataclass(frozen=True, slots=True)
class Rows:
    """Which rows a product takes and where their outputs go: entries from `starts[e]` on are those of matrix e."""

    starts: Ints  # [matrices + 1]
    taken: Ints
    written: Ints


class Instructions:
    """Makes instructions; holds the small constant arrays that these point to."""

    def __init__(
        self, config: ModelConfig, weights: Weights, buffers: Buffers, cache: KvCache, rope: RopeTables, rounding: int
    ) -> None:
        self.config = config
        self._weights = weights
        self._shard = weights.shard
        self._buffers = buffers
        self._cache = cache
        self._rope = rope
        self._rounding = rounding
        self._epsilon = np.array([config.norm_epsilon], np.float32)
        self._scale = np.array([1 / np.sqrt(np.float32(config.score_width))], np.float32)
        self._head_groups = np.array(self._shard.head_groups(config), np.int64)
        self._whole: dict[int, Ints] = {}
        self.head_leaves = np.array(self._shard.head_leaves, np.int64)
        self.hidden_leaves = np.array(self._shard.hidden_leaves, np.int64)
        self.all_rows = Rows(buffers.n_rows, buffers.identity, buffers.identity)
        self.wanted_rows = Rows(buffers.n_wanted, buffers.identity, buffers.identity)
        self.pairs = Rows(buffers.expert_starts, taken=buffers.pair_rows, written=buffers.pairs)

    def normed(self, consumer: Matrix) -> Array:
        """The normed rows in the form that a matrix wants."""
        return self._buffers.normed if consumer.kind.is_float else self._buffers.normed_q

    def norm(self, weight: Floats, consumers: Sequence[Matrix]) -> Instruction:
        """The residual stream's rows, normed."""
        return self.norm_of(self._buffers.x, self._buffers.n_rows, weight, consumers)

    def norm_of(self, x: Floats, counts: Ints, weight: Floats, consumers: Sequence[Matrix]) -> Instruction:
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

    def quantize_attended(self) -> Instruction:
        """Attention's output for a quantised `o`."""
        b = self._buffers
        return elementwise.quantize(
            n_rows=b.n_rows[1:],
            x=b.attended,
            x_stride=b.attended.strides[0],
            n_blocks=b.attended.shape[1] // BLOCK,
            out_q=b.attended_q,
        )

    def product(self, matrix: Matrix, rows: Rows, x: Array, out: Floats, barrier: bool = True) -> Instruction:
        """out [rows, N] = matrix x rows."""
        whole = self._whole.setdefault(matrix.n_blocks, np.array([0, matrix.n_blocks], np.int64))
        return self.partial_products(matrix, rows, x, out[np.newaxis], whole, barrier)

    def partial_products(
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
            phase=matrix.phase,
            out=out,
            out_stride=out.strides[1],
            out_rows=rows.written,
            leaves=leaves,
            n_leaves=len(leaves) - 1,
            leaf_stride=out.strides[0],
            n_experts=matrix.n_matrices,
            barrier=barrier,
        )

    def add_head_bias(self, role: str, layer: int, x: Floats, barrier: bool) -> Instruction:
        """The bias of q, k or v, of this rank's heads, to `x` [rows, heads * E]."""
        heads = self._shard.heads if role == "q" else self._shard.kv_heads
        width = self.config.head_width
        whole = self._weights.vector(f"{role}_bias", layer)
        return self.add_bias(x, whole[heads.start * width : heads.stop * width], barrier)

    def add_bias(self, x: Floats, bias: Floats, barrier: bool = False) -> Instruction:
        """The same to every row."""
        return add_bias(
            n_rows=self._buffers.n_rows[1:],
            x=x,
            stride=x.strides[0],
            bias=bias,
            n_groups=x.shape[1] // GROUP,
            barrier=barrier,
        )

    def prepare_heads(self, layer: int) -> Instruction:
        """Head norms and RoPE; keys and values go into the cache."""
        b, has_norms = self._buffers, self.config.has_qk_norm
        rope = self._rope.of_layer(has_window=self.config.window_of(layer) > 0)
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
            cos=rope.cos,
            sin=rope.sin,
            rows=b.rows,
            k_cache=self._cache.keys(layer),
            v_cache=self._cache.values(layer),
        )

    def attend(self, layer: int) -> Instruction:
        """Attention over what the layer sees of the cache."""
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
            window=self.config.window_of(layer),
            sinks=self._sinks(layer) if self.config.has_sinks else 0,
        )

    def _sinks(self, layer: int) -> Floats:
        """Of this rank's query heads."""
        return self._weights.vector("sinks", layer)[self._shard.heads.start : self._shard.heads.stop]

    def gated_hidden(self, hidden: HiddenRows, down: Matrix, counts: Ints, barrier: bool = True) -> Instruction:
        """What the model's activation makes of gate and up, in the form that `down` wants."""
        is_float = down.kind.is_float
        return _HIDDEN[self.config.activation](
            n_rows=counts[1:],
            gate=hidden.gate,
            up=hidden.up,
            stride=hidden.gate.strides[0],
            n_blocks=hidden.gate.shape[1] // BLOCK,
            out_f32=hidden.floats if is_float else 0,
            out_q=0 if is_float else hidden.quantized,
            barrier=barrier,
        )

    def tree_sum(self, barrier: bool) -> Instruction:
        """Leaves to the rank's sum."""
        b = self._buffers
        return elementwise.tree_sum(
            n_rows=b.n_rows[1:],
            leaves=b.leaves,
            leaf_stride=b.leaves.strides[0],
            n_leaves=self._shard.n_leaves,
            n_blocks=self.config.width // BLOCK,
            rounding=self._rounding,
            out=b.sum,
            barrier=barrier,
        )

    def add_sum(self) -> Instruction:
        """The sum to the residual stream."""
        b = self._buffers
        return elementwise.add(n_rows=b.n_rows[1:], x=b.x, y=b.sum, n_blocks=self.config.width // BLOCK)

    def add_normed_sum(self, weight: Floats) -> Instruction:
        """The sum, normed, to the residual stream."""
        b = self._buffers
        return elementwise.add_normed(
            n_rows=b.n_rows[1:],
            x=b.x,
            y=b.sum,
            weight=weight,
            n_blocks=self.config.width // BLOCK,
            epsilon=self._epsilon,
        )

    def copy_wanted(self) -> Instruction:
        """The rows whose logits are wanted, side by side."""
        b = self._buffers
        return memory.copy_rows(
            n_rows=b.n_wanted[1:],
            x=b.x,
            stride=b.x.strides[0],
            x_rows=b.wanted,
            width=self.config.width,
            out=b.wanted_x,
        )
