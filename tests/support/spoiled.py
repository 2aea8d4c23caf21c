"""A rank that computes wrong numbers: python -m tests.support.spoiled residual|leaf LAYER [MODE] [options of dllama].

The last rank adds a little to the residual stream after that layer, or to its first leaf of that layer's feed-forward.
"""

import os
import sys

import numpy as np

from dllama_py.cluster import watcher
from dllama_py.transport.environment import launched_rank, launched_size


def main() -> None:
    if watcher.is_wanted():
        sys.exit(watcher.watch())
    from dllama_py import loading
    from dllama_py.cli import main as run
    from dllama_py.model.rank_model import RankModel

    kind, layer, *arguments = sys.argv[1:]
    if launched_rank(os.environ) == (launched_size(os.environ) or 1) - 1:

        def make(*parts: object) -> RankModel:
            model = RankModel(*parts)  # type: ignore[arg-type]
            spoil(model, kind, int(layer))
            return model

        loading.RankModel = make  # type: ignore[assignment,misc]
    sys.exit(run(arguments))


def spoil(model: "object", kind: str, layer: int) -> None:
    """Every step goes wrong in its first row."""
    from dllama_py.kernels import elementwise
    from dllama_py.kernels.program import Program
    from dllama_py.kernels.residual_hash import HashRows, hash_rows

    b = model.buffers  # type: ignore[attr-defined]
    x = b.x if kind == "residual" else b.leaves
    noise = np.zeros((1, x.shape[-1]), np.float32)
    noise[0, 77] = 1e-3
    wrong = elementwise.add(n_rows=np.ones(1, np.int64), x=x, y=noise, n_blocks=x.shape[-1] // 32)

    def spoiled(program: Program) -> Program:
        calls = list(program.instructions)
        looks = [i for i, call in enumerate(calls) if call.kernel is hash_rows]
        of_x = [i for i in looks if (calls[i].arguments[HashRows.N_PLANES] == 1) == (kind == "residual")]
        calls.insert(of_x[layer + 1 if kind == "residual" else 2 * layer + 1], wrong)
        return Program(calls, program.halt)

    model._plain = model._hashed = tuple(map(spoiled, model._hashed))  # type: ignore[attr-defined]


if __name__ == "__main__":
    main()
