# python -m pytest tests/engine/test_perplexity.py
"""Scores of a text: windows, literal bits, and the oracle."""

import math
from pathlib import Path

import numpy as np
import pytest

from dllama_py.engine.perplexity import Surprise, measure, surprise, windows
from dllama_py.errors import InputError
from dllama_py.transport.comm import SoloComm
from tests import naive
from tests.checkpoints import own_folder
from tests.support.engines import engine_on

IDS = [(29 * i * i + 11 * i + 5) % 300 for i in range(41)]


def expected_nats(folder: Path, window: list[int]) -> float:
    shares = naive.softmax(naive.logits(folder, window))
    return -sum(math.log(shares[i, token]) for i, token in enumerate(window[1:]))


def test_windows_leave_nothing_out_that_can_be_scored() -> None:
    assert windows([1, 2, 3, 4, 5], 2) == [[1, 2], [3, 4]]
    assert windows([1, 2, 3, 4, 5], 3) == [[1, 2, 3], [4, 5]]
    assert windows([1, 2], 8) == [[1, 2]]


@pytest.mark.parametrize("length", [16, 41, 20])
def test_as_the_oracle(tmp_path: Path, length: int) -> None:
    folder = own_folder(tmp_path / "tiny", "tiny-qwen3", distinct=True)
    seen: list[int] = []
    with engine_on(SoloComm(), folder, weights="f32", chunk_rows=7) as engine:
        assert engine is not None
        found = measure(engine.runner, IDS, length, seen.append)
    parts = windows(IDS, length)
    assert found.n_tokens == sum(len(part) - 1 for part in parts)
    nats = sum(expected_nats(folder, list(part)) for part in parts)
    assert found.nats == pytest.approx(nats, rel=1e-6)
    assert found.perplexity == pytest.approx(math.exp(nats / found.n_tokens), rel=1e-6)
    assert seen == sorted(seen) and seen[-1] == len(IDS)


def test_windows_that_begin_alike_are_scored_anew(tmp_path: Path) -> None:
    with engine_on(SoloComm(), own_folder(tmp_path / "tiny")) as engine:
        assert engine is not None
        once = measure(engine.runner, IDS[:8], 8, lambda done: None)
        twice = measure(engine.runner, IDS[:8] * 2, 8, lambda done: None)
    assert (twice.nats, twice.n_tokens) == (2 * once.nats, 14)


def test_the_bits_are_the_same_on_every_platform() -> None:
    logits = ((np.arange(50000) * 7919 % 40009 - 20000) / np.float32(1000)).astype(np.float32)
    assert surprise(logits, 123).hex() == "0x1.0a8bf86737e94p+5"
    assert Surprise(30.0, 10).perplexity.hex() == "0x1.415e5bf6fb106p+4"


def test_damaged_weights_are_told() -> None:
    with pytest.raises(InputError, match="a logit of nan; its weights may be damaged"):
        surprise(np.array([1, np.nan], np.float32), 0)
