"""Products that are timed before a model is loaded, over a piece of memory that stands for its weights."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dllama_py.arena import zeroed
from dllama_py.blocks import BLOCK, FloatType
from dllama_py.config import ModelConfig
from dllama_py.formats.tensors import TensorSpec
from dllama_py.kernels.layout import GROUP, X_BLOCK_BYTES, packed_bytes
from dllama_py.kernels.matmul import matmul
from dllama_py.kernels.product_words import Product
from dllama_py.kernels.program import Instruction, Program
from dllama_py.kernels.words import Argument
from dllama_py.planning.speeds import PROBE_ROWS
from dllama_py.sharding.kinds import Kinds
from dllama_py.sharding.pieces import held_specs, packed_piece_bytes, piece_of
from dllama_py.sharding.plan import Shard

MOST_BYTES = 256_000_000  # more than the caches of home machines hold; larger ones keep part of 128 MB
FEWEST_BYTES = 4_000_000  # of models that are smaller than that, which will be in the caches as well
LEAST_BYTES = 200_000  # of a product: the smallest matrices of the smallest model that is worth its kernels
FILL = 0x3C  # as a half 1.06, as a float32 0.01: sums stay ordinary numbers


@dataclass(frozen=True, slots=True)
class Subject:
    """What a rank is measured for: its part of every layer of a model."""

    config: ModelConfig
    shard: Shard
    kinds: Kinds
    half_cache: bool


@dataclass(frozen=True, slots=True)
class TimedProducts:
    """With weights of one type, one behind the other, and how much they multiply with."""

    kind: FloatType
    program: Program
    n_weights: int
    n_bytes: int


class Products:
    """Makes them; what they compute is of no use. `n_bytes`: of the memory, at most what a rank has of the model;
    `layer_bytes`: of a layer's weights that one row is multiplied with."""

    def __init__(self, subject: Subject, most_bytes: int) -> None:
        matrices = [spec for spec in held_specs(subject.config, subject.shard) if len(spec.shape) == 2]
        pieces = [piece_of(spec, subject.shard, subject.config) for spec in matrices if spec.layer is not None]
        self.kinds = sorted({subject.kinds[spec.name] for spec in matrices}, key=lambda kind: kind.label)
        self._n_groups = max(sum(len(piece.rows) for piece in pieces) // len(pieces) // GROUP, 1)
        self._n_blocks = subject.config.width // BLOCK
        weights_bytes = sum(_bytes(spec, subject) for spec in matrices if not spec.expert)
        self.n_bytes = min(max(weights_bytes, FEWEST_BYTES), most_bytes)
        self.layer_bytes = max(sum(_row_bytes(spec, subject) for spec in matrices if spec.layer == 0), 1)
        self._memory = zeroed(self.n_bytes)
        self._memory[:] = FILL
        least_groups = LEAST_BYTES // min(packed_bytes(kind, GROUP, range(self._n_blocks)) for kind in self.kinds)
        self._x = np.full((PROBE_ROWS, self._n_blocks * 4 * BLOCK), FILL, np.uint8)
        self._out = np.zeros((PROBE_ROWS, GROUP * max(self._n_groups, least_groups)), np.float32)
        self._rows = np.arange(PROBE_ROWS)

    def of_kind(self, kind: FloatType, n_rows: int, place: range) -> TimedProducts:
        """Over about these bytes of the memory, in pieces as large as the model's matrices are on average."""
        group_bytes = packed_bytes(kind, GROUP, range(self._n_blocks))
        n_groups = max(min(max(self._n_groups, LEAST_BYTES // group_bytes), len(place) // group_bytes), 1)
        size = n_groups * group_bytes
        count = max(len(place) // size, 1)
        start = min(place.start, self.n_bytes - size)
        products = [self._product(kind, n_groups, start + i * size, n_rows) for i in range(count)]
        return TimedProducts(kind, Program(products), count * n_groups * GROUP * self._n_blocks * BLOCK, count * size)

    def moved(self, arguments: Sequence[Argument], at: int) -> tuple[Argument, ...]:
        """Of a product with other weights: the same with those that begin at this byte of the memory."""
        return (*arguments[: Product.WEIGHTS], self._memory[at:], *arguments[Product.WEIGHTS + 1 :])

    def _product(self, kind: FloatType, n_groups: int, at: int, n_rows: int) -> Instruction:
        """Of a matrix of 16 * n_groups rows."""
        n_blocks = self._n_blocks
        return matmul(kind)(
            starts=_numbers(0, n_rows),
            x=self._x,
            x_stride=n_blocks * (4 * BLOCK if kind.is_float else X_BLOCK_BYTES),
            x_rows=self._rows,
            weights=self._memory[at:],
            n_groups=n_groups,
            n_blocks=n_blocks,
            phase=0,
            out=self._out,
            out_stride=self._out.strides[0],
            out_rows=self._rows,
            leaves=_numbers(0, n_blocks),
            n_leaves=1,
            leaf_stride=0,
            n_experts=1,
        )


def _bytes(spec: TensorSpec, subject: Subject) -> int:
    return packed_piece_bytes(spec, subject.kinds[spec.name], subject.shard, subject.config)


def _row_bytes(spec: TensorSpec, subject: Subject) -> int:
    """That one row is multiplied with; of experts all of them, by the first one's spec."""
    if spec.expert is None:
        return _bytes(spec, subject)
    return 0 if spec.expert else _bytes(spec, subject) * subject.config.n_active_experts // subject.config.n_experts


def _numbers(*values: int) -> NDArray[np.int64]:
    return np.array(values, np.int64)
