"""python -m tests.kernels.speed: how fast products are on one thread, with weights in the cache and without."""

import time

import numpy as np

from dllama_py.float_types import BLOCK, FloatType
from dllama_py.kernels.layout import X_BLOCK_BYTES, n_groups, packed_bytes
from dllama_py.kernels.matmul import matmul
from dllama_py.kernels.program import Program
from dllama_py.kernels.team import Team

FILL = 0x3C  # as a half 1.06, as a float32 0.01: sums stay ordinary numbers
TRIES = 20


def best_seconds(kind: FloatType, rows: int, columns: int, n_tokens: int) -> tuple[float, int]:
    """Of one product of rows x columns with n_tokens rows of activations, and the bytes of the packed weights."""
    n_blocks = columns // BLOCK
    weights = np.full(packed_bytes(kind, rows, range(n_blocks)), FILL, np.uint8)
    x = np.full((n_tokens, n_blocks * (4 * BLOCK if kind.is_float else X_BLOCK_BYTES)), FILL, np.uint8)
    out = np.zeros((n_tokens, n_groups(rows) * 16), np.float32)
    each = np.arange(n_tokens)
    program = Program(
        [
            matmul(kind)(
                starts=np.array([0, n_tokens]),
                x=x,
                x_stride=x.strides[0],
                x_rows=each,
                weights=weights,
                n_groups=n_groups(rows),
                n_blocks=n_blocks,
                phase=0,
                out=out,
                out_stride=out.strides[0],
                out_rows=each,
                leaves=np.array([0, n_blocks]),
                n_leaves=1,
                leaf_stride=0,
                n_experts=1,
            )
        ]
    )
    team, seconds = Team(1), []
    for _ in range(TRIES):
        started = time.perf_counter()
        team.run(program)
        seconds.append(time.perf_counter() - started)
    return min(seconds), weights.nbytes


def main() -> None:
    print("type    1 row in cache   1 row from memory   64 rows")
    for kind in FloatType:
        cached_s, cached_bytes = best_seconds(kind, 1536, 576, 1)
        streamed_s, streamed_bytes = best_seconds(kind, 151_936, 1024, 1)
        many_s, _ = best_seconds(kind, 3072, 1024, 64)
        print(
            f"{kind.label:6}{cached_bytes / cached_s / 1e9:10.1f} GB/s{streamed_bytes / streamed_s / 1e9:15.1f} GB/s"
            f"{3072 * 1024 * 64 / many_s / 1e9:12.0f} GMAC/s"
        )


if __name__ == "__main__":
    main()
