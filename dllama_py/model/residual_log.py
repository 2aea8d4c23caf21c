"""Hashes of what a rank computes on its way through the layers, of some steps: where do two ranks, or two runs, part?

The residual stream is the same on all ranks, so its hashes tell of a rank whose CPU, memory or link makes errors. The
leaves (docs/arithmetic.md) are the same in all runs, whoever computes them, so theirs tell which node began.
"""

import numpy as np
from numpy.typing import NDArray

from dllama_py.kernels.program import Instruction
from dllama_py.kernels.residual_hash import hash_rows
from dllama_py.model.buffers import Buffers

Hashes = NDArray[np.int64]

EVERY_STEPS = 64  # of which one is hashed
ATTENTION, FEED_FORWARD = 0, 1  # the halves of a layer


class ResidualLog:
    """Of a rank's L layers and P / N leaves, for the rows of the last step that was hashed."""

    def __init__(self, buffers: Buffers, layers: range) -> None:
        n_leaves, max_rows, _ = buffers.leaves.shape
        self._buffers = buffers
        self.first_layer = layers.start
        self._residual = np.zeros((len(layers) + 1, max_rows), np.int64)
        self._leaves = np.zeros((len(layers), 2, n_leaves, max_rows), np.int64)

    def residual(self, n_rows: int) -> Hashes:
        """int64 [L + 1, T]: of the rows that came in, then of the residual stream after each layer."""
        return np.ascontiguousarray(self._residual[:, :n_rows])

    def leaves(self, n_rows: int) -> Hashes:
        """int64 [L, 2, P / N, T]: of the partial sums of this rank, attention's before the feed-forward's."""
        return np.ascontiguousarray(self._leaves[..., :n_rows])

    def hash_residual(self, n_done: int) -> Instruction:
        """After so many layers of the model."""
        b, own = self._buffers, n_done - self.first_layer
        return _hashing(b.x[np.newaxis], self._residual[own : own + 1], b.n_rows[1:])

    def hash_leaves(self, layer: int, half: int) -> Instruction:
        """Before they are added, which overwrites them."""
        b = self._buffers
        return _hashing(b.leaves, self._leaves[layer - self.first_layer, half], b.n_rows[1:])


def _hashing(x: NDArray[np.float32], out: Hashes, n_rows: NDArray[np.int64]) -> Instruction:
    """x [planes, T, D], out [planes, T]."""
    return hash_rows(
        n_rows=n_rows,
        x=x,
        x_stride=x.strides[1],
        n_planes=x.shape[0],
        plane_stride=x.strides[0],
        width=x.shape[2],
        out=out,
        out_stride=out.strides[0],
    )
