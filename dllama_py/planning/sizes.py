"""What one rank holds of every layer: bytes in memory and multiplications, from sizes alone; no weight is read."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from dllama_py.blocks import FloatType
from dllama_py.config import ModelConfig
from dllama_py.formats.tensors import Cut, TensorSpec, tensor_specs
from dllama_py.model.memory import PYTHON_BYTES, StepSize, buffers_bytes, cache_bytes, root_bytes
from dllama_py.sharding.kinds import Kinds
from dllama_py.sharding.pieces import packed_piece_bytes, piece_of
from dllama_py.sharding.plan import Shard


@dataclass(frozen=True, slots=True)
class Product:
    """A matrix that rows are multiplied with; of experts all that have one role: `n_bytes` and `macs` are of one."""

    kind: FloatType
    n_bytes: int  # packed
    macs: int  # of one row
    n_experts: int = 1
    n_active: int = 1  # experts that a row is multiplied with


@dataclass(frozen=True, slots=True)
class PartSizes:
    """A layer, or what comes behind the last one."""

    products: tuple[Product, ...]
    vectors_bytes: int

    @property
    def weights_bytes(self) -> int:
        """In memory, all experts."""
        return self.vectors_bytes + sum(product.n_bytes * product.n_experts for product in self.products)


@dataclass(frozen=True, slots=True)
class RankSizes:
    """A rank's part of the whole model, of which its stage takes some layers."""

    layers: tuple[PartSizes, ...]
    head: PartSizes
    layer_cache_bytes: int  # keys and values of a layer, of all sequences and positions
    fixed_bytes: int  # of any stage: buffers, tables, the program itself
    head_bytes: int  # more of the last stage: the head and what it computes. The embedding table stays in the file.
    root_bytes: int  # more of the root, whose stage it is whatever layers it has


def rank_sizes(
    config: ModelConfig, kinds: Kinds, shard: Shard, context: int, half_cache: bool, step: StepSize
) -> RankSizes:
    """Of the rank that has this shard of every layer."""
    specs: dict[int | None, list[TensorSpec]] = defaultdict(list)
    for spec in tensor_specs(config):
        if spec.cut is not Cut.ROOT and not spec.expert:
            specs[spec.layer].append(spec)
    parts = {layer: _part(config, kinds, shard, of_layer) for layer, of_layer in specs.items()}
    layer_cache_bytes = cache_bytes(config, shard, step.n_slots, context, half_cache) // config.n_layers
    with_head, without = (
        buffers_bytes(config, replace(shard, has_head=has_head), context, step) for has_head in (True, False)
    )
    return RankSizes(
        tuple(parts[layer] for layer in range(config.n_layers)),
        parts[None],
        layer_cache_bytes,
        without + context * config.head_width * 4 + PYTHON_BYTES,  # RoPE tables of this size
        parts[None].weights_bytes + with_head - without,
        root_bytes(config, replace(shard, has_head=True), context, step),
    )


def _part(config: ModelConfig, kinds: Kinds, shard: Shard, specs: list[TensorSpec]) -> PartSizes:
    vectors_bytes = sum(4 * spec.n_elements for spec in specs if len(spec.shape) == 1)
    return PartSizes(tuple(_products(config, kinds, shard, specs)), vectors_bytes)


def _products(config: ModelConfig, kinds: Kinds, shard: Shard, specs: list[TensorSpec]) -> Iterator[Product]:
    for spec in specs:
        if len(spec.shape) == 1:
            continue
        kind, piece = kinds[spec.name], piece_of(spec, shard, config)
        n_experts, n_active = (1, 1) if spec.expert is None else (config.n_experts, config.n_active_experts)
        n_bytes = packed_piece_bytes(spec, kind, shard, config) // n_experts
        yield Product(kind, n_bytes, len(piece.rows) * len(piece.blocks) * 32, n_experts, n_active)
