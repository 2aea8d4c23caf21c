# python -m pytest tests/test_api.py
"""The engine as programs use it: answers by themselves and at once, those that are left early, and errors."""

import asyncio
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dllama_py import Engine, StreamedToken
from dllama_py.boot import open_engine
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.errors import InputError, UsageError
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.settings import EngineSettings, PipelineSettings
from dllama_py.transport.comm import SoloComm
from tests.checkpoints import tiny_gguf
from tests.support.engines import ids_of

MPIRUN = Path(sys.executable).parent / "mpirun"
PROMPTS = [[(7 * i + 3 * n) % 250 for i in range(5 + 9 * n)] for n in range(5)]
HOT = SamplerSettings(0.8, top_p=0.9, seed=5)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf(tmp_path_factory.mktemp("model") / "model.gguf", distinct=True)


@pytest.fixture(scope="module")
def opened(model: Path) -> Iterator[Engine]:
    with Engine.open(model, n_threads=1) as engine:
        yield engine


@pytest.fixture(scope="module")
def alone(model: Path) -> list[list[int]]:
    """What each prompt gives by itself."""
    settings = EngineSettings(n_threads=1)
    with open_engine(settings, SoloComm(), lambda: open_checkpoint(model), lambda line: None) as engine:
        assert engine is not None
        return [ids_of(engine, prompt, HOT, 20) for prompt in PROMPTS]


async def answer(engine: Engine, prompt: Sequence[int], n_tokens: int = 20) -> list[StreamedToken]:
    return [token async for token in engine.generate_stream(prompt, max_tokens=n_tokens, sampling=HOT)]


async def answer_of(stream: AsyncIterator[StreamedToken]) -> list[StreamedToken]:
    return [token async for token in stream]


def ids(tokens: Sequence[StreamedToken]) -> list[int]:
    return [token.id for token in tokens if token.id is not None]


@pytest.mark.parametrize(("sequences", "speculate"), [(1, "off"), (3, "lookup"), (2, "draft")])
def test_answers_at_once_are_those_of_each_alone(
    model: Path, alone: list[list[int]], sequences: int, speculate: str
) -> None:
    """Guesses change nothing; the small model is the same one, so that they are many."""
    draft = model if speculate == "draft" else None

    async def all_answers() -> list[list[StreamedToken]]:
        return await asyncio.gather(*(answer(engine, prompt) for prompt in PROMPTS))

    with Engine.open(model, sequences=sequences, speculate=speculate, draft=draft, n_threads=1) as engine:
        answers = asyncio.run(all_answers())
    for tokens, expected in zip(answers, alone, strict=True):
        assert ids(tokens) == expected[: len(ids(tokens))]
        assert tokens[-1].id is None
        assert tokens[-1].finish_reason in ("stop", "length")
        assert {token.finish_reason for token in tokens[:-1]} == {None}
    assert any(tokens[-1].finish_reason == "length" and len(ids(tokens)) == 20 for tokens in answers)


def test_who_stops_listening_frees_the_slot(model: Path, alone: list[list[int]]) -> None:
    async def some() -> list[StreamedToken]:
        stream = engine.generate_stream(PROMPTS[1], max_tokens=400)
        async for token in stream:
            if token.id is not None:
                break
        await stream.aclose()
        return await answer(engine, PROMPTS[0])

    with Engine.open(model, n_threads=1) as engine:
        tokens = asyncio.run(some())
    assert ids(tokens) == alone[0][: len(ids(tokens))]


def test_a_text_and_a_stop(model: Path) -> None:
    async def text(**wishes: object) -> str:
        return "".join([token.text async for token in engine.generate_stream("Hi", max_tokens=30, **wishes)])

    with Engine.open(model, n_threads=1) as engine:
        whole = asyncio.run(text())
        stop = whole[5:7]
        for wish in ([stop], stop, iter([stop])):
            assert asyncio.run(text(stop=wish)) == whole[: whole.index(stop)]
        assert asyncio.run(text(stop=None, sampling=None)) == whole


def test_what_keeps_it_from_opening_is_raised(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"), Engine.open(tmp_path / "none.gguf"):
        pass
    with pytest.raises(UsageError, match="there is no topology 'ring'; expected tensor, pipeline or auto"):
        Engine.open(tmp_path / "none.gguf", topology="ring")
    with pytest.raises(UsageError, match="speculate is 'dice'; expected off, lookup, draft"):
        Engine.open(tmp_path / "none.gguf", speculate="dice")
    with pytest.raises(UsageError, match="--speculate off uses no small model and --draft names one; give one of them"):
        Engine.open(tmp_path / "none.gguf", speculate="off", draft="small.gguf")


@pytest.mark.parametrize(
    ("wishes", "told"),
    [
        ({"sequences": 0}, "sequences is 0; expected a whole number from 1"),
        ({"n_threads": -1}, "n_threads is -1; expected a whole number from 1"),
        ({"context": 1.5}, "context is 1.5; expected a whole number from 1"),
        ({"exchange": "f16"}, "exchange is 'f16'; expected f32, bf16, q80"),
        ({"pipeline": "auto"}, "pipeline is 'auto'; expected PipelineSettings"),
        ({"pipeline": PipelineSettings(plan_only=True)}, "plan_only loads nothing that could answer"),
        ({"sequences": True}, "sequences is True; expected a whole number from 1"),
        ({"model": 5}, "model is 5; expected the path of a file or folder"),
        ({"model": ""}, "model is ''; expected the path of a file or folder"),
        ({"model": "a\0b"}, "expected the path of a file or folder"),
        ({"tokenizer": 5}, "tokenizer is 5; expected the path of a file or folder"),
        ({"draft": b"a"}, "draft is b'a'; expected the path of a file or folder"),
        ({"say": None}, "say is None; expected a function of a line"),
        ({"replicate_kv": "no"}, "replicate_kv is 'no'; expected True or False"),
        ({"threads": 2}, "there is no setting 'threads'; did you mean n_threads.; expected weights, n_threads"),
        ({"weights": ["q40"]}, r"weights is \['q40'\]; expected q40"),
    ],
)
def test_settings_that_cannot_be_meant(wishes: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        Engine.open(**{"model": "none.gguf", **wishes})


def test_an_engine_is_opened_once(model: Path) -> None:
    engine = Engine.open(model, n_threads=1)
    with engine:
        with pytest.raises(UsageError, match="this engine was opened before; Engine.open gives another one"), engine:
            pass
        assert ids(asyncio.run(answer(engine, PROMPTS[0])))


def test_a_split_is_a_text() -> None:
    with pytest.raises(UsageError, match="split is 5; expected auto, or a text such as"):
        PipelineSettings(split=5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"temperature": "hot"}, "temperature is 'hot'; expected a number from 0"),
        ({"temperature": -1}, "temperature is -1; expected a number from 0"),
        ({"temperature": float("nan")}, "temperature is nan; expected a number from 0"),
        ({"temperature": [1]}, r"temperature is \[1\]; expected a number from 0"),
        ({"top_p": 1.5}, r"top_p is 1.5; expected a number from 0 to 1 \(0 and 1: off\)"),
        ({"top_p": "0.9"}, "top_p is '0.9'; expected a number from 0 to 1"),
        ({"top_k": 1.5}, "top_k is 1.5; expected a whole number from 0"),
        ({"top_k": -1}, "top_k is -1; expected a whole number from 0"),
        ({"seed": "a"}, "seed is 'a'; expected a whole number from 0"),
        ({"seed": 1 << 64}, "seed is 18446744073709551616; expected a whole number up to 18446744073709551615"),
    ],
)
def test_sampling_that_cannot_be_meant(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        SamplerSettings(**settings)


def test_none_is_the_default() -> None:
    assert SamplerSettings(None, None, None, None) == SamplerSettings()  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("prompt", "wishes", "told"),
    [
        ([1, "a"], {}, "the prompt holds int, str; expected a text, token ids alone, or chat messages alone"),
        ([1.5], {}, "the prompt holds float"),
        (None, {}, "the prompt is None; expected a text, token ids or chat messages"),
        ([1], {"max_tokens": -1}, "max_tokens is -1; expected a whole number from 0"),
        ([1], {"stop": [7]}, r"stop is \[7\]; expected a text or several"),
        ([1], {"stop": 5}, "stop is 5; expected a text or several"),
        ([1], {"stop": b"a"}, "stop is b'a'; expected a text or several"),
        ([1], {"sampling": "hot"}, "sampling is 'hot'; expected SamplerSettings"),
        ([1], {"max_tokens": "8"}, "max_tokens is '8'; expected a whole number from 0"),
        ([1], {"max_tokens": True}, "max_tokens is True; expected a whole number from 0"),
        ("Hi", {"chat_template_kwargs": {"a": 1}}, "chat_template_kwargs is for chat messages; this prompt is none"),
        ([1], {"chat_template_kwargs": [1]}, r"chat_template_kwargs is \[1\]; expected names and values"),
        (b"Hi", {}, "the prompt is b'Hi'; expected a text, token ids or chat messages"),
        (bytearray(b"Hi"), {}, "the prompt is bytearray"),
        ({"role": "user"}, {}, "the prompt is {'role': 'user'}; expected a text, token ids or chat messages"),
        ([True], {}, "the prompt holds bool"),
        ([np.array([1])], {}, "the prompt holds ndarray"),
    ],
)
def test_wishes_that_cannot_be_meant(opened: Engine, prompt: Any, wishes: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        asyncio.run(answer_of(opened.generate_stream(prompt, **wishes)))


def test_ids_from_anywhere(opened: Engine, alone: list[list[int]]) -> None:
    """An array, and what can be gone through once."""
    for prompt in (np.array(PROMPTS[0]), iter(PROMPTS[0])):
        found = ids(asyncio.run(answer(opened, prompt)))  # type: ignore[arg-type]
        assert found == alone[0][: len(found)]


def test_prompts_that_cannot_be(model: Path) -> None:
    with Engine.open(model, n_threads=1) as engine:
        with pytest.raises(UsageError, match="the prompt is empty"):
            asyncio.run(answer(engine, []))
        with pytest.raises(UsageError, match="token 999 does not exist"):
            asyncio.run(answer(engine, [999]))
        assert ids(asyncio.run(answer(engine, PROMPTS[0])))
    with pytest.raises(UsageError, match="the engine is not open"):
        asyncio.run(answer(Engine.open(model), PROMPTS[0]))


def test_an_engine_that_is_closed_tells_who_still_waits(model: Path) -> None:
    async def close_early() -> None:
        with Engine.open(model, n_threads=1) as engine:
            stream = engine.generate_stream(PROMPTS[0], max_tokens=400)
            await anext(stream)
            waits = asyncio.create_task(answer(engine, PROMPTS[1]))
            await asyncio.sleep(0)
        for left in (waits, answer_of(stream)):
            with pytest.raises(UsageError, match="the engine was closed before the answer was complete"):
                await left
        with pytest.raises(UsageError, match="the engine was closed before"):
            await answer(engine, PROMPTS[2])

    asyncio.run(close_early())


@pytest.mark.parametrize("n_ranks", [1, 2])
def test_the_documented_example(smollm2_gguf: Path, tmp_path: Path, n_ranks: int) -> None:
    code = re.findall(r"```python\n(.*?)```", Path("docs/python.md").read_text(), re.DOTALL)[0]
    (tmp_path / "answer.py").write_text(code)
    command = [MPIRUN, "-np", str(n_ranks), sys.executable, tmp_path / "answer.py", smollm2_gguf]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout) == (0, " Paris.\n\nThe answer is:")
