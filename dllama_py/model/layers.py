"""The parts of a layer: a rank's instructions in their order.

Products, and what reads them column by column, share the columns among the threads in the same way; between these
there is no barrier.

A model page (llama.py, qwen3_moe.py) strings these together. Between `Exchange` and the next part the ranks add
their sums; everything else happens without talking.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dllama_py.config import ModelConfig
from dllama_py.kernels.program import Instruction
from dllama_py.model.buffers import Buffers
from dllama_py.model.candidates import Candidates
from dllama_py.model.instructions import Instructions
from dllama_py.model.kv_cache import KvCache
from dllama_py.model.mixture import Mixture
from dllama_py.model.residual_log import ATTENTION, FEED_FORWARD, ResidualLog
from dllama_py.model.rope import RopeTables
from dllama_py.sharding.weights import Weights
from dllama_py.wire import Wire


@dataclass(frozen=True, slots=True)
class Exchange:
    """Here the ranks add up `buffers.sum`."""


@dataclass(frozen=True, slots=True)
class Look:
    """An instruction that only watches; most programs leave it out."""

    instruction: Instruction


Part = Instruction | Exchange | Look

_POST_NORMS = {ATTENTION: "attention_post_norm", FEED_FORWARD: "ffn_post_norm"}


class Layers:
    """Parts of any layer of one rank's model."""

    def __init__(
        self, config: ModelConfig, weights: Weights, buffers: Buffers, cache: KvCache, rope: RopeTables, rounding: int
    ) -> None:
        self.config = config
        self._weights = weights
        self._buffers = buffers
        self._make = Instructions(config, weights, buffers, cache, rope, rounding)
        self._mixture = Mixture(config, weights.shard, buffers)
        self._candidates = Candidates(config, weights.shard, buffers)
        self.numbers, self.has_head = weights.shard.layers, weights.shard.has_head
        self.log = ResidualLog(buffers, self.numbers)

    def attention(self, layer: int) -> Iterator[Part]:
        """x += o(attention(norm(x))); what is added is normed where the model does."""
        make, b = self._make, self._buffers
        yield from self._heads(layer)
        yield make.prepare_heads(layer)
        yield make.attend(layer)
        output = self._weights.matrix("o", layer)
        if not output.kind.is_float:
            yield make.quantize_attended()
        attended = b.attended if output.kind.is_float else b.attended_q
        yield make.partial_products(output, make.all_rows, attended, b.leaves, make.head_leaves, barrier=False)
        biases = [make.add_bias(b.sum, self._weights.vector("o_bias", layer))] if self.config.has_o_bias else []
        yield from self._add_up(layer, ATTENTION, biases)

    def _heads(self, layer: int) -> Iterator[Part]:
        """q, k and v of norm(x)."""
        make, b, has_bias = self._make, self._buffers, self.config.has_qkv_bias
        matrices = [self._weights.matrix(role, layer) for role in "qkv"]
        yield make.norm(self._weights.vector("attention_norm", layer), matrices)
        for role, matrix, out in zip("qkv", matrices, (b.q, b.k, b.v), strict=True):
            is_last = role == "v"
            yield make.product(matrix, make.all_rows, make.normed(matrix), out, barrier=is_last and not has_bias)
            if has_bias:
                yield make.add_head_bias(role, layer, out, barrier=is_last)

    def dense_feed_forward(self, layer: int) -> Iterator[Part]:
        """x += down(silu(gate(norm(x))) * up(norm(x))); what is added is normed where the model does."""
        make, b = self._make, self._buffers
        gate, up, down = (self._weights.matrix(role, layer) for role in ("gate", "up", "down"))
        yield make.norm(self._weights.vector("ffn_norm", layer), [gate, up])
        yield make.product(gate, make.all_rows, make.normed(gate), b.hidden.gate, barrier=False)
        yield make.product(up, make.all_rows, make.normed(up), b.hidden.up, barrier=False)
        yield make.gated_hidden(b.hidden, down, b.n_rows)
        hidden = b.hidden.form_for(down.kind)
        yield make.partial_products(down, make.all_rows, hidden, b.leaves, make.hidden_leaves, barrier=False)
        yield from self._add_up(layer, FEED_FORWARD)

    def mixture_of_experts(self, layer: int) -> Iterator[Part]:
        """x += sum over the chosen experts of weight * down(silu(gate) * up), and the shared one where there is one."""
        make, mixture, b = self._make, self._mixture, self._buffers
        has_shared, has_bias = self.config.shared_width > 0, self.config.has_mixture_bias
        router, gate, up, down = (self._weights.matrix(role, layer) for role in ("router", "gate", "up", "down"))
        shared = [self._weights.matrix(f"shared_{role}", layer) for role in ("gate", "up")] if has_shared else []
        yield make.norm(self._weights.vector("ffn_norm", layer), [router, gate, up, *shared])
        if has_shared:
            yield from self._shared_hidden(layer)
        yield make.product(router, make.all_rows, b.normed, b.router_logits, barrier=not has_bias)
        if has_bias:
            yield make.add_bias(b.router_logits, self._weights.vector("router_bias", layer), barrier=True)
        if has_shared:
            yield mixture.shared_factors()
        yield mixture.route()
        yield make.product(gate, make.pairs, make.normed(gate), b.hidden.gate, barrier=False)
        yield make.product(up, make.pairs, make.normed(up), b.hidden.up, barrier=False)
        if has_bias:
            yield mixture.add_hidden_bias(self._weights.vector("gate_bias", layer), b.hidden.gate)
            yield mixture.add_hidden_bias(self._weights.vector("up_bias", layer), b.hidden.up)
        yield make.gated_hidden(b.hidden, down, b.n_pairs)
        yield mixture.expert_sums(down)
        if has_shared:
            yield mixture.shared_sum(self._weights.matrix("shared_down", layer))
        biases = [mixture.add_down_bias(self._weights.vector("down_bias", layer))] if has_bias else []
        yield from self._add_up(layer, FEED_FORWARD, biases)

    def _shared_hidden(self, layer: int) -> Iterator[Part]:
        """The shared expert up to its hidden rows; the barrier for its readers is that of the router's product."""
        make, b = self._make, self._buffers
        router, gate, up, down = (
            self._weights.matrix(f"shared_{role}", layer) for role in ("router", "gate", "up", "down")
        )
        yield make.product(router, make.all_rows, b.normed, b.shared_logits, barrier=False)
        yield make.product(gate, make.all_rows, make.normed(gate), b.shared.gate, barrier=False)
        yield make.product(up, make.all_rows, make.normed(up), b.shared.up, barrier=False)
        yield make.gated_hidden(b.shared, down, b.n_rows, barrier=False)

    def head(self, wire: Wire | None) -> list[Instruction]:
        """Logits of the wanted rows, and the candidates among them where these are asked for; over the wire to the
        first of several ranks.
        """
        make, candidates, b, head = self._make, self._candidates, self._buffers, self._weights.matrix("head")
        norm = make.norm_of(b.wanted_x, b.n_wanted, self._weights.vector("final_norm"), [head])
        product = make.product(head, make.wanted_rows, make.normed(head), b.logits)
        instructions = [make.copy_wanted(), norm, product, candidates.find(), candidates.merge()]
        return [*instructions, candidates.gathered(wire)] if wire else instructions

    def _add_up(self, layer: int, half: int, biases: Sequence[Instruction] = ()) -> Iterator[Part]:
        """Leaves to the rank's sum, the ranks' sums to one, that with its biases, or normed, to the residual stream."""
        has_norm = self.config.has_post_norms
        yield Look(self.log.hash_leaves(layer, half))
        yield self._make.tree_sum(barrier=has_norm)
        yield Exchange()
        for bias in biases:
            yield replace(bias, barrier=has_norm)
        if has_norm:
            yield self._make.add_normed_sum(self._weights.vector(_POST_NORMS[half], layer))
        else:
            yield self._make.add_sum()
