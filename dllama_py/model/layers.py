"""The parts of a layer: a rank's instructions in their order.

Products, and what reads them column by column, share the columns among the threads in the same way; between these
there is no barrier.

A model page (llama.py, qwen3_moe.py) strings these together. Between `Exchange` and the next part the ranks add
their sums; everything else happens without talking.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dllama_py.config import ModelConfig
from dllama_py.kernels.program import Instruction
from dllama_py.model.buffers import Buffers
from dllama_py.model.instructions import Instructions
from dllama_py.model.kv_cache import KvCache
from dllama_py.model.residual_log import ATTENTION, FEED_FORWARD, ResidualLog
from dllama_py.model.rope import RopeTables
from dllama_py.sharding.weights import Weights


@dataclass(frozen=True, slots=True)
class Exchange:
    """Here the ranks add up `buffers.sum`."""


@dataclass(frozen=True, slots=True)
class Look:
    """An instruction that only watches; most programs leave it out."""

    instruction: Instruction


Part = Instruction | Exchange | Look


class Layers:
    """Parts of any layer of one rank's model."""

    def __init__(
        self, config: ModelConfig, weights: Weights, buffers: Buffers, cache: KvCache, rope: RopeTables, rounding: int
    ) -> None:
        self.config = config
        self._weights = weights
        self._buffers = buffers
        self._make = Instructions(config, weights, buffers, cache, rope, rounding)
        self.numbers, self.has_head = weights.shard.layers, weights.shard.has_head
        self.log = ResidualLog(buffers, self.numbers)

    def attention(self, layer: int) -> Iterator[Part]:
        """x += o(attention(norm(x)))."""
        make, b = self._make, self._buffers
        matrices = [self._weights.matrix(role, layer) for role in ("q", "k", "v")]
        yield make.norm(self._weights.vector("attention_norm", layer), matrices)
        for matrix, out in zip(matrices, (b.q, b.k, b.v), strict=True):
            yield make.product(matrix, make.all_rows, make.normed(matrix), out, barrier=out is b.v)
        yield make.prepare_heads(layer)
        yield make.attend(layer)
        output = self._weights.matrix("o", layer)
        if not output.kind.is_float:
            yield make.quantize_attended()
        attended = b.attended if output.kind.is_float else b.attended_q
        yield make.partial_products(output, make.all_rows, attended, b.leaves, make.head_leaves, barrier=False)
        yield from self._add_up(layer, ATTENTION)

    def dense_feed_forward(self, layer: int) -> Iterator[Part]:
        """x += down(silu(gate(norm(x))) * up(norm(x)))."""
        make, b = self._make, self._buffers
        gate, up, down = (self._weights.matrix(role, layer) for role in ("gate", "up", "down"))
        yield make.norm(self._weights.vector("ffn_norm", layer), [gate, up])
        yield make.product(gate, make.all_rows, make.normed(gate), b.gate, barrier=False)
        yield make.product(up, make.all_rows, make.normed(up), b.up, barrier=False)
        yield make.gated_hidden(down, b.n_rows)
        hidden = make.hidden(down)
        yield make.partial_products(down, make.all_rows, hidden, b.leaves, make.hidden_leaves, barrier=False)
        yield from self._add_up(layer, FEED_FORWARD)

    def mixture_of_experts(self, layer: int) -> Iterator[Part]:
        """x += sum over the chosen experts of weight * down(silu(gate) * up)."""
        make, b = self._make, self._buffers
        router, gate, up, down = (self._weights.matrix(role, layer) for role in ("router", "gate", "up", "down"))
        yield make.norm(self._weights.vector("ffn_norm", layer), [router, gate, up])
        yield make.product(router, make.all_rows, b.normed, b.router_logits)
        yield make.route()
        yield make.product(gate, make.pairs, make.normed(gate), b.gate, barrier=False)
        yield make.product(up, make.pairs, make.normed(up), b.up, barrier=False)
        yield make.gated_hidden(down, b.n_pairs)
        yield make.expert_sums(down)
        yield from self._add_up(layer, FEED_FORWARD)

    def head(self) -> list[Instruction]:
        """Logits of the wanted rows, and the candidates among them where these are asked for."""
        make, b, head = self._make, self._buffers, self._weights.matrix("head")
        norm = make.norm_of(b.wanted_x, b.n_wanted, self._weights.vector("final_norm"), [head])
        product = make.product(head, make.wanted_rows, make.normed(head), b.logits)
        return [make.copy_wanted(), norm, product, make.find_candidates(), make.merge_candidates()]

    def _add_up(self, layer: int, half: int) -> Iterator[Part]:
        """Leaves to the rank's sum, the ranks' sums to one, that to the residual stream."""
        yield Look(self.log.hash_leaves(layer, half))
        yield self._make.tree_sum()
        yield Exchange()
        yield self._make.add_sum()
