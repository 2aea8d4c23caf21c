"""The one list of tensors of a model, in the order of a `.m` file, and how each is cut for the ranks.

Readers, the converter, the distribution of slices and the memory plan all loop over `tensor_specs`; no other
place knows which tensors a model has.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from dllama_py.config import ModelConfig


class Cut(Enum):
    """How a matrix [rows = outputs, columns = inputs] is shared."""

    OUTPUT = auto()  # a rank owns some outputs; nothing has to be added
    INPUT = auto()  # a rank owns some inputs; partial sums are added over the ranks
    WHOLE = auto()  # every rank has all of it
    ROOT = auto()  # only the root, and there in the file


class Along(Enum):
    """What a cut runs along: the shard of each rank says which of these it owns."""

    HEADS = auto()  # query heads, head_width elements each
    KV_HEADS = auto()  # key/value heads, head_width elements each
    HIDDEN = auto()  # feed-forward columns
    SHARED = auto()  # feed-forward columns of the expert that every token uses
    VOCAB = auto()
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor: `shape` is (rows, columns) = (outputs, inputs), or (size,) for a norm or a bias.

    `is_matrix` tensors are stored in the file's weights type; all others (norms, embedding, router) are f32
    in a `.m` file. `role` is the name without layer and expert, unique within a layer.
    """

    role: str
    shape: tuple[int, ...]
    cut: Cut
    along: Along = Along.NOTHING
    layer: int | None = None
    expert: int | None = None
    is_matrix: bool = False

    @property
    def name(self) -> str:
        """For messages and tables, such as `layers.3.experts.5.down`."""
        layer = "" if self.layer is None else f"layers.{self.layer}."
        expert = "" if self.expert is None else f"experts.{self.expert}."
        return f"{layer}{expert}{self.role}"

    @property
    def n_elements(self) -> int:
        rows, columns = self.matrix_shape
        return rows * columns

    @property
    def matrix_shape(self) -> tuple[int, int]:
        """A vector counts as one row."""
        return (1, self.shape[0]) if len(self.shape) == 1 else (self.shape[0], self.shape[1])


def tensor_specs(config: ModelConfig) -> Iterator[TensorSpec]:
    """All tensors in file order (embedding first, head last; `down` before `up`)."""
    yield TensorSpec("embedding", (config.vocab_size, config.width), Cut.ROOT)
    for layer in range(config.n_layers):
        yield from _attention_specs(config, layer)
        yield from _feed_forward_specs(config, layer)
        yield from _norm_specs(config, layer)
    yield TensorSpec("final_norm", (config.width,), Cut.WHOLE)
    yield TensorSpec("head", (config.vocab_size, config.width), Cut.OUTPUT, Along.VOCAB, is_matrix=True)


def _attention_specs(config: ModelConfig, layer: int) -> Iterator[TensorSpec]:
    d, q, kv = config.width, config.q_width, config.kv_width
    yield TensorSpec("q", (q, d), Cut.OUTPUT, Along.HEADS, layer, is_matrix=True)
    yield TensorSpec("k", (kv, d), Cut.OUTPUT, Along.KV_HEADS, layer, is_matrix=True)
    yield TensorSpec("v", (kv, d), Cut.OUTPUT, Along.KV_HEADS, layer, is_matrix=True)
    yield TensorSpec("o", (d, q), Cut.INPUT, Along.HEADS, layer, is_matrix=True)
    if config.has_qkv_bias:
        yield TensorSpec("q_bias", (q,), Cut.WHOLE, Along.HEADS, layer)
        yield TensorSpec("k_bias", (kv,), Cut.WHOLE, Along.KV_HEADS, layer)
        yield TensorSpec("v_bias", (kv,), Cut.WHOLE, Along.KV_HEADS, layer)
    if config.has_o_bias:
        yield TensorSpec("o_bias", (d,), Cut.WHOLE, layer=layer)
    if config.has_sinks:
        yield TensorSpec("sinks", (config.n_heads,), Cut.WHOLE, layer=layer)


def _feed_forward_specs(config: ModelConfig, layer: int) -> Iterator[TensorSpec]:
    d, f = config.width, config.hidden_width
    if config.n_experts:
        yield TensorSpec("router", (config.n_experts, d), Cut.WHOLE, layer=layer)
    for expert in range(config.n_experts) if config.n_experts else (None,):
        yield TensorSpec("gate", (f, d), Cut.OUTPUT, Along.HIDDEN, layer, expert, is_matrix=True)
        yield TensorSpec("down", (d, f), Cut.INPUT, Along.HIDDEN, layer, expert, is_matrix=True)
        yield TensorSpec("up", (f, d), Cut.OUTPUT, Along.HIDDEN, layer, expert, is_matrix=True)
    if config.has_mixture_bias:
        yield TensorSpec("router_bias", (config.n_experts,), Cut.WHOLE, layer=layer)
        for role, n_outputs in (("gate_bias", f), ("down_bias", d), ("up_bias", f)):  # of one expert after the other
            yield TensorSpec(role, (config.n_experts * n_outputs,), Cut.WHOLE, layer=layer)
    if config.shared_width:
        yield from _shared_expert_specs(config, layer)


def _shared_expert_specs(config: ModelConfig, layer: int) -> Iterator[TensorSpec]:
    d, f = config.width, config.shared_width
    yield TensorSpec("shared_router", (1, d), Cut.WHOLE, layer=layer)
    yield TensorSpec("shared_gate", (f, d), Cut.OUTPUT, Along.SHARED, layer, is_matrix=True)
    yield TensorSpec("shared_down", (d, f), Cut.INPUT, Along.SHARED, layer, is_matrix=True)
    yield TensorSpec("shared_up", (f, d), Cut.OUTPUT, Along.SHARED, layer, is_matrix=True)


def _norm_specs(config: ModelConfig, layer: int) -> Iterator[TensorSpec]:
    if config.has_qk_norm:
        yield TensorSpec("q_norm", (config.head_width,), Cut.WHOLE, layer=layer)
        yield TensorSpec("k_norm", (config.head_width,), Cut.WHOLE, layer=layer)
    yield TensorSpec("attention_norm", (config.width,), Cut.WHOLE, layer=layer)
    yield TensorSpec("ffn_norm", (config.width,), Cut.WHOLE, layer=layer)
    if config.has_post_norms:
        yield TensorSpec("attention_post_norm", (config.width,), Cut.WHOLE, layer=layer)
        yield TensorSpec("ffn_post_norm", (config.width,), Cut.WHOLE, layer=layer)
