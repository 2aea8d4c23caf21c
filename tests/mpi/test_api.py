# make test-mpi-4, or: mpirun -np 4 python -m pytest --with-mpi tests/mpi/test_api.py
"""Programs that use the engine on several ranks: who guesses, listens at once or leaves early changes no answer."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from dllama_py import Engine
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.settings import PipelineSettings
from dllama_py.transport.comm import Comm, SoloComm
from tests.checkpoints import tiny_gguf
from tests.support.engines import engine_on, ids_of

pytestmark = pytest.mark.mpi(sizes=(2, 4))

HOT = SamplerSettings(0.8, top_p=0.9, seed=5)
PROMPTS = [[5, 9, 14, 3, 5, 9, 14] * 3, [1 + n % 5 for n in range(30)], [7], [200, 201, 202] * 5]
N_TOKENS = 40
WISHES = {
    "tensor, lookup": {"speculate": "lookup"},
    "pipeline, draft": {"speculate": "draft", "pipeline": PipelineSettings(), "sequences": 2},
    "grid, lookup": {"speculate": "lookup", "pipeline": PipelineSettings(n_stages=2, split="1,3"), "sequences": 2},
}


@pytest.fixture
def model(comm: Comm, tmp_path: Path) -> Path:
    if comm.rank == 0:
        tiny_gguf(tmp_path / "model", "tiny-llama", distinct=True, num_hidden_layers=4)
    return tmp_path / "model"


def with_engine(
    comm: Comm, model: Path, work: Callable[[Engine, list[list[int]]], Awaitable[None]], **wishes: object
) -> None:
    """Each rank's program. `work` is told what each prompt gives on one rank without guesses."""
    if comm.rank:
        with pytest.raises(SystemExit):
            Engine.serve(threads=1)
        return
    with engine_on(SoloComm(), model) as alone:
        assert alone is not None
        expected = [ids_of(alone, prompt, HOT, N_TOKENS) for prompt in PROMPTS]
    with Engine.open(model, n_threads=1, **wishes) as engine:
        asyncio.run(work(engine, expected))


async def answer(engine: Engine, prompt: Sequence[int], n_tokens: int = N_TOKENS) -> list[int]:
    """Its ids, the last one possibly an end."""
    tokens = [token async for token in engine.generate_stream(prompt, max_tokens=n_tokens, sampling=HOT)]
    return [token.id for token in tokens if token.id is not None]


async def first_ids(engine: Engine, prompt: Sequence[int], n: int) -> list[int]:
    """Of an answer that is left there."""
    stream, found = engine.generate_stream(prompt, max_tokens=400, sampling=HOT), []
    while len(found) < n:
        found.append((await anext(stream)).id)
    await stream.aclose()
    return found


@pytest.mark.parametrize("name", WISHES)
def test_guesses_change_no_answer(comm: Comm, model: Path, name: str) -> None:
    async def work(engine: Engine, expected: list[list[int]]) -> None:
        answers = await asyncio.gather(*(answer(engine, prompt) for prompt in PROMPTS))
        assert [found == ids[: len(found)] for found, ids in zip(answers, expected, strict=True)] == [True] * 4
        assert max(map(len, answers)) == N_TOKENS

    if comm.size == 4 or "grid" not in name:
        with_engine(comm, model, work, draft=model if "draft" in name else None, **WISHES[name])


def test_who_leaves_early_leaves_the_others_alone(comm: Comm, model: Path) -> None:
    """One stream is closed, one task cancelled while it waits; others go on and come after them."""

    async def work(engine: Engine, expected: list[list[int]]) -> None:
        for _ in range(3):
            stays = asyncio.create_task(answer(engine, PROMPTS[0]))
            cancelled = asyncio.create_task(answer(engine, PROMPTS[1], 400))
            assert await first_ids(engine, PROMPTS[3], 3) == expected[3][:3]
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            found, next_one = await stays, await answer(engine, PROMPTS[1])
            assert found == expected[0][: len(found)]
            assert next_one == expected[1][: len(next_one)]

    with_engine(comm, model, work, topology="pipeline", sequences=2, speculate="lookup")
