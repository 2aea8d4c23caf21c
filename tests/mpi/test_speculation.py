# make test-mpi-4, or: mpirun -np 4 python -m pytest --with-mpi tests/mpi/test_speculation.py
"""Ids that are checked several in a step are the ids of one a step, on every number of ranks."""

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

import pytest

from dllama_py.boot import Engine
from dllama_py.engine.draft_model import DraftModel
from dllama_py.engine.generate import generate
from dllama_py.engine.lookup import Lookup
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.speculation import NO_SPECULATION, Speculating, Speculation
from dllama_py.engine.token_loop import Token
from dllama_py.prompting import open_text
from dllama_py.settings import PipelineSettings
from dllama_py.transport.comm import Comm
from tests.checkpoints import own_folder, tiny_gguf
from tests.support.drafting import Daring, Written
from tests.support.engines import engine_on

pytestmark = pytest.mark.mpi

PROMPT = [5, 9, 14, 3, 5, 9, 14] * 9  # generation reaches a second page of the cache
N_TOKENS = 16
SPLITS = {2: "3,4", 4: "2,3,0,2", 5: "1,2,1,1,2"}
MANNERS = {
    "greedy": SamplerSettings(),
    "nucleus": SamplerSettings(0.8, 0, 0.9, 11),
    "few": SamplerSettings(0.8, 5, 1.0, 11),
    "few in a nucleus": SamplerSettings(0.8, 5, 0.9, 11),
    "many candidates": SamplerSettings(3.0, 0, 0.999, 11),
    "all": SamplerSettings(0.8, 0, 1.0, 11),
}


def said(
    engine: Engine,
    prompt: Sequence[int],
    manner: SamplerSettings,
    speculation: Speculating = NO_SPECULATION,
    n_tokens: int = N_TOKENS,
) -> list[int]:
    n_vocab = engine.orders.config.vocab_size
    events = generate(CachedSequence(engine.runner, 0), prompt, manner, n_tokens, n_vocab, speculation)
    return [event.id for event in events if isinstance(event, Token)]


def half_right(answer: Sequence[int]) -> Written:
    """Drafts of 0, 1, ... 6 ids, each wrong behind the n-th for n = 0, 1, ... 4, as if every step gave one id."""
    drafts = []
    for at in range(len(answer)):
        draft = list(answer[at : at + at % 7])
        draft[at % 5 :] = [(id + 1) % 300 for id in draft[at % 5 :]]
        drafts.append(draft)
    return Written(iter(drafts))


@pytest.mark.parametrize(("name", "manners"), [("tiny-llama31", list(MANNERS)), ("tiny-qwen3moe", ["greedy"])])
def test_ids_are_those_of_plain_steps(comm: Comm, tmp_path: Path, name: str, manners: list[str]) -> None:
    if comm.rank == 0:
        own_folder(tmp_path / name, name, distinct=True)
    with engine_on(comm, tmp_path / name) as engine:
        if engine is None:
            return
        for manner in map(MANNERS.__getitem__, manners):
            plain = said(engine, PROMPT, manner)
            for drafts in ([plain[2:]] * N_TOKENS, [[1, 2, 3]] * N_TOKENS):
                assert said(engine, PROMPT, manner, Written(iter(drafts))) == plain
            assert said(engine, PROMPT, manner, half_right(plain)) == plain
            speculation = Speculation(Lookup())
            assert said(engine, PROMPT, manner, speculation) == plain


def test_a_model_at_the_root_guesses(comm: Comm, tmp_path: Path) -> None:
    """The same model by itself at the root, which must say what all say together."""
    if comm.rank == 0:
        own_folder(tmp_path / "model", "tiny-llama31", distinct=True)
    with engine_on(comm, tmp_path / "model", draft=tmp_path / "model") as engine:
        if engine is None:
            return
        assert engine.draft is not None
        for manner in (MANNERS["greedy"], MANNERS["nucleus"]):
            plain = said(engine, PROMPT, manner)
            assert said(engine, PROMPT, manner, Speculation(DraftModel(engine.draft, manner, 320))) == plain
            drafter = DraftModel(engine.draft, manner, 320)
            drafter.start(PROMPT + plain[:1])
            assert [guess.id for guess in islice(drafter.guesses(), 9)] == plain[1:10]


@pytest.mark.mpi(sizes=(2, 4, 5))
@pytest.mark.parametrize("number", range(2))
def test_stages_compute_steps_ahead_or_leave_them(comm: Comm, tmp_path: Path, number: int) -> None:
    """2, 3, 5 stages, and 2 of 2 ranks; drafts that are right, wrong at the end, in the middle, at once."""
    if number and comm.size != 4:
        return
    if comm.rank == 0:
        tiny_gguf(tmp_path / "model", "tiny-llama", distinct=True, num_hidden_layers=7)
    pipeline = PipelineSettings(2, "3,4") if number else PipelineSettings(split=SPLITS[comm.size])
    with engine_on(comm, tmp_path / "model", pipeline=pipeline, draft=tmp_path / "model") as engine:
        if engine is None:
            return
        assert engine.draft is not None
        for manner in (MANNERS["nucleus"], MANNERS["all"], MANNERS["many candidates"], MANNERS["greedy"]):
            plain = said(engine, PROMPT, manner, n_tokens=40)
            for is_right in (lambda at: True, lambda at: at % 9 != 0, lambda at: at % 4 != 2, lambda at: False):
                speculation = Daring(plain, is_right)
                assert said(engine, PROMPT, manner, speculation, n_tokens=40) == plain
                assert speculation.n_ahead > 3
            assert said(engine, PROMPT, manner, Speculation(DraftModel(engine.draft, manner, 320)), 40) == plain


@pytest.mark.mpi(sizes=(1, 2))
def test_smollm2_looks_up_what_it_repeats(comm: Comm, smollm2_gguf: Path) -> None:
    with engine_on(comm, smollm2_gguf) as engine:
        if engine is None:
            return
        text = open_text(engine.checkpoint, None)
        assert text is not None
        prompt = text.chat_ids("Write this list two times: red, green, blue, red, green, blue, red, green, blue")
        for manner in (SamplerSettings(), SamplerSettings(0.8, 0, 0.9, 3)):
            speculation = Speculation(Lookup())
            found = said(engine, prompt, manner, speculation, n_tokens=40)
            assert found == said(engine, prompt, manner, n_tokens=40)
            assert speculation.counts.n_accepted > 0
            assert speculation.counts.n_steps < 39
