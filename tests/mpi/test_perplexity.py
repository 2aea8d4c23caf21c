# make test-mpi-4, or: mpirun -np 4 python -m pytest --with-mpi tests/mpi/test_perplexity.py
"""Perplexity has the same bits on every number of ranks and in chunks of every size."""

from pathlib import Path

import pytest

from dllama_py.engine.perplexity import Surprise, measure
from dllama_py.transport.comm import Comm, SoloComm
from tests.checkpoints import own_folder
from tests.support.engines import engine_on

pytestmark = pytest.mark.mpi

IDS = [(29 * i * i + 11 * i + 5) % 300 for i in range(100)]


def scored(comm: Comm, model: Path, chunk_rows: int, weights: str) -> Surprise | None:
    with engine_on(comm, model, chunk_rows=chunk_rows, weights=weights) as engine:
        return measure(engine.runner, IDS, 70, lambda done: None) if engine is not None else None


@pytest.mark.parametrize("weights", ["q40", "q80", "f16", "f32"])
def test_one_perplexity(comm: Comm, tmp_path: Path, weights: str) -> None:
    model = tmp_path / "model"
    alone: Surprise | None = None
    if comm.rank == 0:
        own_folder(model, "tiny-qwen3moe" if weights == "q40" else "tiny-llama31", distinct=True)
        alone = scored(SoloComm(), model, 64, weights)
        assert alone is not None and alone.n_tokens == 98
    for chunk_rows in (64, 7):
        assert scored(comm, model, chunk_rows, weights) == alone
