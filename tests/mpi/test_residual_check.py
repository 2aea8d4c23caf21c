# make test-mpi-4, or: mpirun -np 4 python -m pytest --with-mpi tests/mpi/test_residual_check.py
"""Hashes on the way through the layers: the same whatever the ranks and chunks; they tell where somebody went wrong."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dllama_py import loading
from dllama_py.boot import Engine
from dllama_py.engine.sequence import CachedSequence
from dllama_py.errors import ClusterError
from dllama_py.model.rank_model import RankModel
from dllama_py.transport.comm import Comm, SoloComm
from tests.checkpoints import own_folder
from tests.support.engines import engine_on, fed
from tests.support.spoiled import spoil

pytestmark = pytest.mark.mpi

IDS = [(13 * i + 5) % 300 for i in range(20)]  # all different
N_LAYERS, N_LEAVES = 2, 8


@pytest.fixture(params=["tiny-llama", "tiny-qwen3moe"])
def model(request: pytest.FixtureRequest, comm: Comm, tmp_path: Path) -> Path:
    if comm.rank == 0:
        own_folder(tmp_path / "model", request.param, distinct=True)
    return tmp_path / "model"


def hashes_of(engine: Engine, chunk_rows: int) -> tuple[np.ndarray, np.ndarray]:
    engine.runner.keep_hashes()
    fed(CachedSequence(engine.runner, 0, chunk_rows), IDS)
    return engine.runner.kept_hashes()


def test_hashes_are_those_of_one_rank(comm: Comm, model: Path) -> None:
    with engine_on(comm, model, n_threads=2, exchange="q80") as engine:
        found = [hashes_of(engine, chunk_rows) for chunk_rows in (20, 3)] if engine else []
    if comm.rank:
        return
    with engine_on(SoloComm(), model, exchange="q80") as engine:
        assert engine is not None
        residual, leaves = hashes_of(engine, 20)
    assert residual.shape == (20, N_LAYERS + 1) and leaves.shape == (20, N_LAYERS, 2, N_LEAVES)
    assert len(np.unique(residual)) == residual.size
    for other_residual, other_leaves in found:
        assert np.array_equal(residual, other_residual) and np.array_equal(leaves, other_leaves)


@pytest.mark.parametrize("layer", [-1, 1])
def test_a_rank_with_other_numbers_is_named(
    comm: Comm, model: Path, layer: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = comm.size - 1

    def make(*parts: Any) -> RankModel:
        made = RankModel(*parts)
        if comm.rank == wrong:
            spoil(made, "residual", layer)
        return made

    monkeypatch.setattr(loading, "RankModel", make)
    with engine_on(comm, model) as engine:
        if engine is None:
            return
        if comm.size == 1:  # nobody to compare with
            fed(CachedSequence(engine.runner, 0), IDS)
            return
        with pytest.raises(ClusterError) as found:
            fed(CachedSequence(engine.runner, 0), IDS)
        where = "before the first layer" if layer < 0 else "after layer 1"
        assert re.match(
            f"rank {wrong} on .* has not the numbers of the others? {where} at position 0: ", str(found.value)
        )


def test_a_wrong_leaf_shows_in_its_owners_leaves_only(comm: Comm, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with engine_on(comm, model) as engine:
        right = hashes_of(engine, 20) if engine else None

    def make(*parts: Any) -> RankModel:
        made = RankModel(*parts)
        if comm.rank == comm.size - 1:
            spoil(made, "leaf", 1)
        return made

    monkeypatch.setattr(loading, "RankModel", make)
    with engine_on(comm, model) as engine:
        if engine is None:
            return
        residual, leaves = hashes_of(engine, 20)
    assert right is not None
    assert np.argwhere(leaves != right[1])[0].tolist() == [0, 1, 1, N_LEAVES - N_LEAVES // comm.size]
    assert np.array_equal(residual[0, :2], right[0][0, :2]) and residual[0, 2] != right[0][0, 2]


def test_one_step_in_many_is_looked_at(comm: Comm, model: Path) -> None:
    with engine_on(comm, model, context=128) as engine:
        if engine is None:
            return
        sequence = CachedSequence(engine.runner, 0)
        sequence.start([1])
        hashed = []
        for number in range(66):
            list(sequence.feed([number]))
            hashed += [number] if engine.runner.model.was_hashed else []
    assert hashed == ([0, 64] if comm.size > 1 else [])
