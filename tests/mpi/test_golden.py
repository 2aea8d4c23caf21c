# make test-mpi-2, or: mpirun -np 2 python -m pytest --with-mpi tests/mpi/test_golden.py
"""Answers of programs that are not ours (tests/golden), on every number of ranks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dllama_py.completion import Finish, Piece, Request, complete
from dllama_py.engine.generate import generate
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.token_loop import Token
from dllama_py.prompting import open_text
from dllama_py.transport.comm import Comm
from tests.checkpoints import own_folder
from tests.support.engines import engine_on, fed, logits_of

pytestmark = pytest.mark.mpi

GOLDEN = Path(__file__).parent.parent / "golden"
TINY: dict[str, Any] = json.loads((GOLDEN / "tiny.json").read_text())["models"]
SMOLLM2: list[dict[str, Any]] = json.loads((GOLDEN / "smollm2-135m-instruct.json").read_text())["cases"]
SURE = 0.5  # logits between the best and the second: rounding activations to 8 bits changes no choice as clear as that
GREEDY = SamplerSettings()


@pytest.mark.parametrize("name", TINY)
def test_tiny_models_in_float32(comm: Comm, tmp_path: Path, name: str) -> None:
    """Reference: transformers in float32."""
    golden = TINY[name]["float32_reference"]
    if comm.rank == 0:
        own_folder(tmp_path / name, name)
    with engine_on(comm, tmp_path / name, weights="f32", cache_type="f32") as engine:
        if engine is None:
            return
        logits = logits_of(engine, golden["ids"])
        assert np.abs(logits[15] - np.array(golden["logits_at_15"])).max() < 2e-4
        assert np.abs(logits[99] - np.array(golden["logits_at_99"])).max() < 2e-4
        sequence = CachedSequence(engine.runner, slot=0)
        events = generate(sequence, golden["ids"][:16], GREEDY, 32, len(logits[0]))
        assert [e.id for e in events if isinstance(e, Token)] == golden["greedy_32_after_first_16_ids"]


@pytest.mark.mpi(sizes=(1, 4))
def test_smollm2(comm: Comm, smollm2_gguf: Path) -> None:
    """Prompt ids, the choices along the reference's own text wherever they are clear, and answers to two questions."""
    with engine_on(comm, smollm2_gguf) as engine:
        if engine is None:
            return
        text = open_text(engine.checkpoint, None)
        assert text is not None
        sequence = CachedSequence(engine.runner, slot=0)
        n_sure = 0
        for case in SMOLLM2:
            is_chat = case["kind"] == "chat"
            ids = text.chat_ids(case["prompt"]) if is_chat else text.tokenizer.encode(case["prompt"])
            assert ids == case["ids"], case["prompt"]
            sequence.start([ids[0]])  # forget what is cached, so that logits of all ids come
            logits = fed(sequence, ids + case["greedy"][:-1])[len(ids) - 1 :]
            for row, wanted, margin in zip(logits, case["greedy"], case["margins"], strict=True):
                n_sure += margin > SURE
                assert margin <= SURE or int(np.argmax(row)) == wanted, (case["prompt"], wanted, margin)
        assert n_sure > 200
        for prompt, answer in {
            "What is the capital of France? Answer in one sentence.": "The capital of France is Paris.",
            "What is the capital of Japan?": "The capital of Japan is Tokyo.",
        }.items():
            ends, n_vocab = text.tokenizer.eos_ids, text.tokenizer.vocab_size
            request = Request(text.chat_ids(prompt), GREEDY, 64, ends, n_vocab)
            events = complete(sequence, request, text.tokenizer.piece)
            assert "".join(e.text for e in events if isinstance(e, Piece | Finish)) == answer
