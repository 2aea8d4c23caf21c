# mpirun -np 2 python -m pytest --with-mpi tests/mpi/test_plan.py
"""The plan of a run: made by all ranks, saved, followed again; nothing is loaded where only the plan is wanted."""

from pathlib import Path

import pytest

from dllama_py.planning.plan_file import check, read
from dllama_py.settings import PipelineSettings
from dllama_py.transport.comm import Comm
from dllama_py.transport.failure import AgreedFailure
from tests.checkpoints import tiny_gguf
from tests.support.engines import engine_on

pytestmark = pytest.mark.mpi(sizes=(2, 4))

N_LAYERS = 8


@pytest.fixture
def model(comm: Comm, tmp_path: Path) -> Path:
    """At the root, which alone needs the file."""
    path = tmp_path / "model.gguf"
    return tiny_gguf(path, num_hidden_layers=N_LAYERS) if comm.rank == 0 else path


def test_a_plan_is_made_saved_and_followed(comm: Comm, model: Path, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    each = N_LAYERS // comm.size
    split = ":".join(["1"] * comm.size)
    with engine_on(comm, model, pipeline=PipelineSettings(split=split, save_plan=path, plan_only=True)) as engine:
        assert engine is None
    if comm.rank == 0:
        saved = read(path)
        assert saved.counts == (each,) * comm.size and saved.is_measured
        assert saved.token_s > 0 and [stage.hosts[0] for stage in saved.stages] == [host.name for host in comm.hosts]
    with engine_on(comm, model, pipeline=PipelineSettings(plan=path)) as engine:
        if engine is not None and engine.plan is not None:
            assert engine.plan.counts == engine.orders.layer_counts == (each,) * comm.size
            check(engine.plan, path, engine.orders.config, engine.orders.kinds, [host.name for host in comm.hosts])
    assert path.exists() == (comm.rank == 0)  # the others read no file of the user's


def test_auto_says_why_a_rank_is_left_out(comm: Comm, model: Path) -> None:
    with engine_on(comm, model, pipeline=PipelineSettings()) as engine:
        if engine is not None and engine.plan is not None:
            assert sum(engine.plan.counts) == N_LAYERS
            assert len(engine.plan.notes) == engine.plan.counts.count(0)


@pytest.mark.parametrize(
    ("wishes", "message"),
    [
        (PipelineSettings(split="1,1"), "2 layers of 8|2 stages are given, there are 4"),
        (PipelineSettings(plan=Path("nowhere.json")), "--plan nowhere.json: No such file or directory"),
        (PipelineSettings(1, plan_only=True), "a plan of one stage says nothing"),
    ],
)
def test_refusals_are_agreed(comm: Comm, model: Path, wishes: PipelineSettings, message: str) -> None:
    """The root says why, the others leave."""
    with pytest.raises((AgreedFailure, SystemExit)) as caught, engine_on(comm, model, pipeline=wishes):
        pass
    assert comm.rank or caught.match(message)
