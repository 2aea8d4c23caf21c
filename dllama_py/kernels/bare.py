"""The product kernel by itself; with weights and rows in the cache it is the limit of prefill."""

import time

import numpy as np

from dllama_py.blocks import BLOCK, Bytes, FloatType
from dllama_py.kernels.layout import X_BLOCK_BYTES, packed_bytes
from dllama_py.kernels.matmul import matmul
from dllama_py.kernels.program import Program
from dllama_py.kernels.team import Team

GROUPS_A_THREAD, GROUP = 64, 16
N_BLOCKS = 32
N_ROWS = 64
TRIES = 20
FILL = 0x3C  # as a half 1.06, as a float32 0.01: sums stay ordinary numbers


def bare_macs_per_s(kind: FloatType, n_threads: int) -> float:
    """Multiplications a second of one product with 64 rows, the best of some tries."""
    team = Team(n_threads)
    n_groups = GROUPS_A_THREAD * n_threads
    program = product(kind, np.full(n_groups * group_bytes(kind), FILL, np.uint8), N_ROWS)
    try:
        seconds = []
        for _ in range(TRIES):
            started = time.perf_counter()
            team.run(program)
            seconds.append(time.perf_counter() - started)
    finally:
        team.close()
    return N_ROWS * n_groups * GROUP * N_BLOCKS * BLOCK / min(seconds)


def group_bytes(kind: FloatType) -> int:
    """Of 16 outputs of the product that is measured."""
    return packed_bytes(kind, GROUP, range(N_BLOCKS))


def product(kind: FloatType, weights: Bytes, n_rows: int) -> Program:
    """Of rows with the whole groups of outputs that these bytes hold."""
    n_groups = weights.nbytes // group_bytes(kind)
    x = np.full((n_rows, N_BLOCKS * (4 * BLOCK if kind.is_float else X_BLOCK_BYTES)), FILL, np.uint8)
    out = np.zeros((n_rows, n_groups * GROUP), np.float32)
    rows = np.arange(n_rows)
    return Program(
        [
            matmul(kind)(
                starts=np.array([0, n_rows]),
                x=x,
                x_stride=x.strides[0],
                x_rows=rows,
                weights=weights,
                n_groups=n_groups,
                n_blocks=N_BLOCKS,
                phase=0,
                out=out,
                out_stride=out.strides[0],
                out_rows=rows,
                leaves=np.array([0, N_BLOCKS]),
                n_leaves=1,
                leaf_stride=0,
                n_experts=1,
            )
        ]
    )
