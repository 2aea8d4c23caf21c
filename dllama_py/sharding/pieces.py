"""Which rows and columns of a tensor a shard holds."""

from collections.abc import Iterator
from dataclasses import dataclass

from dllama_py.blocks import BLOCK, FloatType
from dllama_py.config import ModelConfig
from dllama_py.formats.tensors import Along, Cut, TensorSpec, tensor_specs
from dllama_py.kernels.layout import packed_bytes
from dllama_py.sharding.plan import Shard


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows, and columns in blocks of 32, of one tensor."""

    rows: range
    blocks: range

    def rows_within(self, start: int, stop: int) -> range:
        """The part of the rows in [start, stop)."""
        return range(min(max(self.rows.start, start), stop), max(min(self.rows.stop, stop), start))


def is_held(spec: TensorSpec, shard: Shard) -> bool:
    """Whether a rank has some of a tensor."""
    if spec.cut is Cut.ROOT:
        return False
    return shard.has_head if spec.layer is None else spec.layer in shard.layers


def held_specs(config: ModelConfig, shard: Shard) -> Iterator[TensorSpec]:
    """All tensors of which a rank has some, in file order."""
    return (spec for spec in tensor_specs(config) if is_held(spec, shard))


def piece_of(spec: TensorSpec, shard: Shard, config: ModelConfig) -> Piece:
    """What a rank has of a tensor that it holds."""
    n_rows, n_columns = spec.matrix_shape
    rows, columns = range(n_rows), range(n_columns)
    if spec.cut is Cut.OUTPUT:
        rows = _elements(spec, shard, config)
    elif spec.cut is Cut.INPUT:
        columns = _elements(spec, shard, config)
    return Piece(rows, range(columns.start // BLOCK, -(-columns.stop // BLOCK)))


def packed_piece_bytes(spec: TensorSpec, kind: FloatType, shard: Shard, config: ModelConfig) -> int:
    """What a rank's piece of a matrix takes in memory, all experts together (`spec` is the first of them); 0 for a
    vector."""
    if len(spec.shape) == 1:
        return 0
    piece = piece_of(spec, shard, config)
    count = 1 if spec.expert is None else config.n_experts
    return count * packed_bytes(kind, len(piece.rows), piece.blocks)


def _elements(spec: TensorSpec, shard: Shard, config: ModelConfig) -> range:
    owned, width = {
        Along.HEADS: (shard.heads, config.head_width),
        Along.KV_HEADS: (shard.kv_heads, config.head_width),
        Along.HIDDEN: (shard.hidden, 1),
        Along.SHARED: (shard.shared, 1),
        Along.VOCAB: (shard.vocab, 1),
    }[spec.along]
    return range(owned.start * width, owned.stop * width)
