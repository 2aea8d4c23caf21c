"""A rank's weights in memory: packed matrices and float vectors, found by layer and role."""

from dataclasses import dataclass

import numpy as np

from dllama_py.arena import zeroed
from dllama_py.blocks import Bytes, Floats, FloatType
from dllama_py.config import ModelConfig
from dllama_py.formats.tensors import TensorSpec
from dllama_py.kernels.layout import GROUP, n_groups, packed_bytes, phase_of
from dllama_py.kernels.pack import pack_rows
from dllama_py.sharding.pieces import held_specs, packed_piece_bytes, piece_of
from dllama_py.sharding.plan import Shard

ALIGNMENT = 64  # bytes, a cache line

Key = tuple[int | None, str]


@dataclass(frozen=True, slots=True)
class Matrix:
    """`n_matrices` (experts, else 1) packed matrices of rows x blocks * 32, one behind the other.

    `blocks` are counted within the file's rows: they may begin within a super-block.
    """

    kind: FloatType
    rows: int
    blocks: range
    n_matrices: int
    packed: Bytes

    @property
    def n_groups(self) -> int:
        return n_groups(self.rows)

    @property
    def n_blocks(self) -> int:
        return len(self.blocks)

    @property
    def phase(self) -> int:
        """The place of the first block in its super-block."""
        return phase_of(self.kind, self.blocks)


class Weights:
    """Filled by `put` while the slices arrive; read-only afterwards."""

    def __init__(self, config: ModelConfig, shard: Shard, kinds: dict[str, FloatType]) -> None:
        self.config = config
        self.shard = shard
        self._matrices: dict[Key, Matrix] = {}
        self._vectors: dict[Key, Floats] = {}
        specs = [spec for spec in held_specs(config, shard) if not spec.expert]
        self._arena = zeroed(sum(_aligned(packed_piece_bytes(spec, kinds[spec.name], shard, config)) for spec in specs))
        self._arena_used = 0
        for spec in specs:
            self._reserve(spec, kinds[spec.name])

    def matrix(self, role: str, layer: int | None = None) -> Matrix:
        """A packed matrix, or all experts' matrices of a role."""
        return self._matrices[layer, role]

    def vector(self, role: str, layer: int | None = None) -> Floats:
        """A norm's weights or a bias, whole, float32 [n]."""
        return self._vectors[layer, role]

    def put(self, spec: TensorSpec, first_row: int, data: Bytes) -> None:
        """Rows [first_row, ...) of this rank's piece, uint8 [rows, file bytes that hold it]; f32 for a vector."""
        if len(spec.shape) == 1:
            self._vectors[spec.layer, spec.role][:] = data.reshape(-1).view(np.float32)[: spec.shape[0]]
            return
        matrix = self._matrices[spec.layer, spec.role]
        size = packed_bytes(matrix.kind, matrix.rows, matrix.blocks)
        start = (spec.expert or 0) * size
        pack_rows(matrix.kind, matrix.blocks, data, matrix.packed[start : start + size], first_row)

    @property
    def n_bytes(self) -> int:
        """Bytes of all packed matrices."""
        return sum(matrix.packed.nbytes for matrix in self._matrices.values())

    def bytes_per_token(self) -> int:
        """Packed bytes that one decoded token reads: active experts only."""
        total = 0
        for matrix in self._matrices.values():
            active = self.config.n_active_experts if matrix.n_matrices > 1 else 1
            total += matrix.packed.nbytes // matrix.n_matrices * active
        return total

    def _reserve(self, spec: TensorSpec, kind: FloatType) -> None:
        if len(spec.shape) == 1:
            whole = np.zeros(n_groups(spec.shape[0]) * GROUP, np.float32)  # kernels take 16 elements at once
            self._vectors[spec.layer, spec.role] = whole[: spec.shape[0]]
            return
        piece = piece_of(spec, self.shard, self.config)
        count = 1 if spec.expert is None else self.config.n_experts
        size = packed_piece_bytes(spec, kind, self.shard, self.config)
        packed = self._arena[self._arena_used : self._arena_used + size]
        self._arena_used += _aligned(size)
        self._matrices[spec.layer, spec.role] = Matrix(kind, len(piece.rows), piece.blocks, count, packed)


def _aligned(n_bytes: int) -> int:
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT
