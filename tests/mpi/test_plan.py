# mpirun -np 2 python -m pytest --with-mpi tests/mpi/test_plan.py
"""The plan of a run: made by all ranks, saved, followed again; nothing is loaded where only the plan is wanted."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dllama_py.config import ModelConfig
from dllama_py.planning import agreement, topologies
from dllama_py.planning.deciding import decide
from dllama_py.planning.plan_file import check, read
from dllama_py.planning.wishes import Links, Node, Wishes
from dllama_py.settings import PipelineSettings
from dllama_py.sharding.kinds import Kinds
from dllama_py.transport.comm import Comm
from dllama_py.transport.failure import AgreedFailure
from tests.checkpoints import tiny_gguf
from tests.support.engines import engine_on, logits_of, solo_logits

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


def test_auto_answers_as_one_rank_does_whichever_way_it_takes(
    comm: Comm, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the machines are, and with half of the ranks sharing every layer, whatever these are."""
    ids = list(range(1, 30))
    alone = solo_logits(model, [ids])[0] if comm.rank == 0 else None
    for chosen in (topologies.choose_topology, _half_of_them):
        monkeypatch.setattr(agreement, "choose_topology", chosen)
        with engine_on(comm, model, pipeline=PipelineSettings(or_tensor=True)) as engine:
            if engine is not None:
                np.testing.assert_array_equal(logits_of(engine, ids), alone)
                if chosen is _half_of_them:
                    assert engine.plan is None
                    assert engine.orders.grid(comm.size).idle == tuple(range(comm.size // 2, comm.size))


def _half_of_them(
    wishes: Wishes, config: ModelConfig, kinds: Kinds, nodes: Sequence[Node], links: Links
) -> topologies.Choice:
    n_ranks = len(nodes) // 2
    return decide(replace(wishes, width=n_ranks), config, kinds, nodes[:n_ranks], links), ()


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
