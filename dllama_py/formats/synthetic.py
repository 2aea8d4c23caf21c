"""A checkpoint without a file: random weights in the shape of a model, for measuring without downloads.

All tensors of a type are cut from one tile of random numbers, made once; where a row begins in it follows from the
tensor's name and the row, so that whoever reads any part, in whatever order, reads the same weights. It answers
nonsense, but all its numbers stay small, finite and different from each other.
"""

import zlib
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from dllama_py.blocks import BLOCK, Bytes, FloatType
from dllama_py.config import ModelConfig
from dllama_py.errors import UsageError
from dllama_py.formats.mapped import MappedFile
from dllama_py.formats.model_file import stored_type
from dllama_py.formats.random_blocks import random_blocks
from dllama_py.formats.tensors import TensorSpec, tensor_specs

_DEVIATION = 0.02  # that of freshly initialised models; outputs of a normed row are then around 1
_TILE_BLOCKS = {32: 32_749, 256: 4_093}  # primes, so that equal rows of one tensor lie far apart


class SyntheticCheckpoint:
    """Fulfils `checkpoint.Checkpoint`: matrices of type `kind`, all others f32, norms 1.

    UsageError where rows are not whole blocks of the type.
    """

    omitted: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    files: tuple[MappedFile, ...] = ()
    is_tied = False
    file_bytes = 0

    def __init__(self, config: ModelConfig, kind: FloatType, name: str = "random weights") -> None:
        for spec in tensor_specs(config):
            if spec.is_matrix and spec.shape[-1] % kind.block_elements:
                raise UsageError(
                    f"{spec.role} of {name} has rows of {spec.shape[-1]}, which are not whole {kind.label} blocks of "
                    f"{kind.block_elements}; take another shape or type"
                )
        self.path = Path(f"<{name}>")
        self.config = config
        self.metadata: Mapping[str, Any] = {}
        self._kind = kind
        self._tiles = {each: _tile(each) for each in {kind, FloatType.F32}}

    def float_type(self, spec: TensorSpec) -> FloatType:
        """The type that `read` delivers for this tensor."""
        return stored_type(spec, self._kind)

    def read(self, spec: TensorSpec, start: int, stop: int) -> Bytes:
        """Rows [start, stop) as uint8 [rows, row_bytes]; read-only where they are a view."""
        if len(spec.shape) == 1:
            return np.ones((1, spec.shape[0]), np.float32).view(np.uint8)
        kind = self.float_type(spec)
        row_bytes = kind.n_bytes(spec.matrix_shape[1])
        tile = self._tiles[kind]
        blocks_before = zlib.crc32(spec.name.encode()) + start * (row_bytes // kind.block_bytes)
        first = blocks_before * kind.block_bytes % tile.size
        return _run(tile, first, (stop - start) * row_bytes).reshape(stop - start, row_bytes)

    def reader(self, spec: TensorSpec) -> Callable[[int, int], Bytes]:
        """`read` of one tensor: (start, stop) -> rows."""
        return partial(self.read, spec)

    def release(self) -> None:
        """The tiles are needed until the end."""


def _tile(kind: FloatType) -> Bytes:
    """Random blocks of the type, one behind the other; the same for every model."""
    columns = max(kind.block_elements, BLOCK)
    tile = random_blocks(kind, _TILE_BLOCKS[columns] * columns, _DEVIATION, seed=kind.ggml_type)
    tile.flags.writeable = False
    return tile


def _run(tile: Bytes, first: int, n_bytes: int) -> Bytes:
    """Bytes [first, first + n_bytes) of the tile repeated for ever."""
    if first + n_bytes <= tile.size:
        return tile[first : first + n_bytes]
    whole, rest = divmod(n_bytes - (tile.size - first), tile.size)
    return np.concatenate([tile[first:], *[tile] * whole, tile[:rest]])
