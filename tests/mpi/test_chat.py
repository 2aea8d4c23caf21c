# make test-mpi-2, or: mpirun -np 2 python -m pytest --with-mpi tests/mpi/test_chat.py
"""A conversation on every number of ranks: the same answers, from the cache as far as it goes."""

from pathlib import Path

import pytest

from dllama_py.cli.chat import talk
from dllama_py.dialogue import Dialogue, Manner
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.prompting import open_text
from dllama_py.transport.comm import Comm
from tests.support.chats import ScriptedFace
from tests.support.engines import engine_on

pytestmark = pytest.mark.mpi(sizes=(1, 2))


def test_three_turns(comm: Comm, smollm2_gguf: Path) -> None:
    face = ScriptedFace("What is the capital of France? Answer in one sentence.", "And of Japan?", "And of Italy?")
    with engine_on(comm, smollm2_gguf) as engine:
        if engine is None:
            return
        text = open_text(engine.checkpoint, None)
        assert text is not None
        talk(Dialogue(text, engine.runner, Manner(SamplerSettings())), face)
    capitals = {"France": "Paris", "Japan": "Tokyo", "Italy": "Rome"}
    assert face.text == "".join(f"The capital of {land} is {city}.\n" for land, city in capitals.items())
    cached = [line.partition("; ")[2] for line in face.said]
    assert cached == [f"{n} prompt tokens were cached]" for n in ("0 of 42", "49 of 64", "71 of 86")]
