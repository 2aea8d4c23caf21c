# make test-mpi-4, or: mpirun -np 4 python -m pytest --with-mpi tests/mpi/test_sampling.py
"""Sampled ids are the same on every number of ranks, and so are the logits that they came from."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dllama_py.boot import Engine
from dllama_py.engine.generate import generate
from dllama_py.engine.sampler import SamplerSettings, sample
from dllama_py.engine.scores import Ask
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.step import Row, Work
from dllama_py.engine.token_loop import Token
from dllama_py.transport.comm import Comm, SoloComm
from tests.checkpoints import own_folder
from tests.support.engines import engine_on, logits_of
from tests.support.known import scores_of

pytestmark = pytest.mark.mpi

PROMPT = [(29 * i * i + 11 * i + 5) % 300 for i in range(12)]
N_TOKENS = 290  # ids above are padding rows of the model
WISHES = [
    SamplerSettings(),
    SamplerSettings(temperature=0.8, top_k=1, seed=1),
    SamplerSettings(temperature=0.8, top_k=40, seed=2),
    SamplerSettings(temperature=2.0, top_k=280, seed=3),
    SamplerSettings(temperature=0.8, top_k=40, top_p=0.5, seed=4),
    SamplerSettings(temperature=0.8, top_p=0.9, seed=5),
    SamplerSettings(temperature=5.0, top_p=0.95, seed=6),  # more than the candidates
    SamplerSettings(temperature=0.8, seed=7),
    SamplerSettings(temperature=5.0, seed=8),
]


def all_ids(engine: Engine) -> list[list[int]]:
    found = []
    for settings in WISHES:
        events = generate(CachedSequence(engine.runner, slot=0), PROMPT, settings, 16, N_TOKENS)
        found.append([event.id for event in events if isinstance(event, Token)])
    return found


@pytest.fixture
def model(comm: Comm, tmp_path: Path) -> Path:
    if comm.rank == 0:
        own_folder(tmp_path / "tiny", "tiny-qwen3", distinct=True)
    return tmp_path / "tiny"


def test_all_settings_give_the_ids_of_one_rank(comm: Comm, model: Path) -> None:
    alone: Sequence[Sequence[int]] = []
    if comm.rank == 0:
        with engine_on(SoloComm(), model) as engine:
            assert engine is not None
            alone = all_ids(engine)
        assert len({tuple(ids) for ids in alone}) == len(WISHES) - 1  # top-k 1 is greedy
    for n_threads in (1, 2):
        with engine_on(comm, model, n_threads=n_threads) as engine:
            if engine is not None:
                assert all_ids(engine) == alone


def test_scores_are_those_of_the_logits(comm: Comm, model: Path) -> None:
    """Rows that ask for different things in one step, against the logits of the same rows."""
    with engine_on(comm, model, n_slots=1) as engine:
        if engine is None:
            return
        logits = logits_of(engine, PROMPT)
        asks = [settings.ask(N_TOKENS) for settings in WISHES]
        engine.runner.cut(0, 0)
        rows = [Row(token, 0, position) for position, token in enumerate(PROMPT)]
        step = engine.runner.forward(Work(rows, range(len(asks)), asks))
        assert step.logits.shape == (0, 320)
        for row, ask, scores, settings in zip(logits, asks, step.scores, WISHES, strict=False):
            expected = scores_of(row, ask)
            assert scores.best_key() == expected.best_key()
            assert scores.best_of(ask.n_candidates).ids.tolist() == expected.best_of(ask.n_candidates).ids.tolist()
            assert scores.rest.logits().tobytes() == row[:N_TOKENS].tobytes()
            assert sample(scores, settings, 3) == sample(expected, settings, 3)
            if ask.temperature:
                np.testing.assert_allclose(scores.shares, expected.shares, rtol=1e-5)


@pytest.mark.mpi(sizes=(2, 4))
@pytest.mark.parametrize("settings", WISHES[:3] + WISHES[5:6], ids=str)
def test_the_vocabulary_stays_where_it_is(comm: Comm, tmp_path: Path, settings: SamplerSettings) -> None:
    """A token's bytes are those of the all-reduce and of some candidates, as the ask says."""
    if comm.rank == 0:
        own_folder(tmp_path / "tiny", "tiny-llama", vocab_size=20_000)
    with engine_on(comm, tmp_path / "tiny") as engine:
        if engine is None:
            return
        sequence, ask = CachedSequence(engine.runner, slot=0), settings.ask(20_000)
        sequence.start(PROMPT)
        *_, _ = sequence.feed(PROMPT, ask=ask)
        (silent,) = sequence.feed([1], ask=Ask(20_000, 1))
        (step,) = sequence.feed([2], ask=ask)
        least = silent.cost.received_bytes
        assert step.cost.received_bytes - least == 8 * (ask.n_candidates - 1) * (comm.size - 1)
        sample(step.scores[0], settings, 0)
        more = step.scores[0].rest.cost.received_bytes
        assert more == 0 or settings.has_nucleus
