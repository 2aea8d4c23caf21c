"""How fast the product kernel is by itself, with weights and rows in the cache: the limit of prefill."""

import time

import numpy as np

from dllama_py.blocks import BLOCK, FloatType
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
    program = _product(kind, n_groups)
    try:
        seconds = []
        for _ in range(TRIES):
            started = time.perf_counter()
            team.run(program)
            seconds.append(time.perf_counter() - started)
    finally:
        team.close()
    return N_ROWS * n_groups * GROUP * N_BLOCKS * BLOCK / min(seconds)


def _product(kind: FloatType, n_groups: int) -> Program:
    weights = np.full(packed_bytes(kind, n_groups * GROUP, range(N_BLOCKS)), FILL, np.uint8)
    x = np.full((N_ROWS, N_BLOCKS * (4 * BLOCK if kind.is_float else X_BLOCK_BYTES)), FILL, np.uint8)
    out = np.zeros((N_ROWS, n_groups * GROUP), np.float32)
    rows = np.arange(N_ROWS)
    return Program(
        [
            matmul(kind)(
                starts=np.array([0, N_ROWS]),
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
