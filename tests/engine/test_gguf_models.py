# python -m pytest tests/engine/test_gguf_models.py
"""Tiny models of the architectures that only GGUF files have: against an oracle, llama.cpp, and themselves."""

from pathlib import Path

import numpy as np
import pytest

from dllama_py.transport.comm import Comm
from tests import naive_gguf
from tests.gguf_models import GOLDEN_POSITIONS, IDS, LAYERS, NAMES, decided_gpt_oss, tiny_gguf_model
from tests.support.engines import Logits, engine_on, logits_of, solo_logits
from tests.support.threads import run_ranks

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("name", NAMES)
def test_logits_are_those_of_the_oracle_and_of_llama_cpp(tmp_path: Path, name: str) -> None:
    """The oracle computes in float64; llama.cpp keeps keys and values as halves."""
    model = tiny_gguf_model(tmp_path / "tiny.gguf", name)
    (logits,) = solo_logits(model, [IDS])
    assert np.abs(logits - naive_gguf.logits(model, IDS)).max() < 1e-4
    assert np.abs(logits[GOLDEN_POSITIONS] - np.load(GOLDEN / f"{name}-llama-cpp.npy")).max() < 0.05


@pytest.mark.parametrize("name", NAMES)
def test_chunks_and_ranks_give_the_bits_of_one(tmp_path: Path, name: str) -> None:
    """Windows end within pages, chunks and tiles of rows."""
    model = tiny_gguf_model(tmp_path / "tiny.gguf", name, "Q8_0")
    (alone,) = solo_logits(model, [IDS])

    def work(comm: Comm) -> list[Logits] | None:
        with engine_on(comm, model) as engine:
            return None if engine is None else [logits_of(engine, IDS, chunk_rows=rows) for rows in (7, 50)]

    for n_ranks in (1, 2, 4):
        found, *_ = run_ranks(n_ranks, work)
        assert found is not None
        assert [logits.tobytes() == alone.tobytes() for logits in found] == [True, True], f"{n_ranks} ranks"


@pytest.mark.parametrize("name", NAMES)
def test_what_lies_before_every_window_is_seen_by_the_other_layers_only(tmp_path: Path, name: str) -> None:
    """Without such layers a token is forgotten once the windows of all layers have passed it."""
    texts = [[first, *IDS[1:100]] for first in (5, 6)]
    for window, is_forgotten in ((10, True), (80, False)):
        pattern = {"attention__sliding_window": window, "attention__sliding_window_pattern": [True] * LAYERS[name]}
        a, b = solo_logits(tiny_gguf_model(tmp_path / f"{window}.gguf", name, **pattern), texts)
        assert (a[99].tobytes() == b[99].tobytes()) == is_forgotten
        assert a[9].tobytes() != b[9].tobytes()
    a, b = solo_logits(tiny_gguf_model(tmp_path / "usual.gguf", name, attention__sliding_window=10), texts)
    assert a[99].tobytes() != b[99].tobytes()


@pytest.mark.parametrize("kind", ["MXFP4", "Q8_0"])
def test_experts_of_mxfp4(tmp_path: Path, kind: str) -> None:
    """As the real files have them, all else in q80; llama.cpp's logits are of that. Activations are rounded to 8 bits
    where they meet the matrices, each program in its way; where that chose another expert for a row, its logits would
    have little in common.
    """
    model = decided_gpt_oss(tmp_path / "tiny.gguf", kind)
    (logits,) = solo_logits(model, [IDS])
    assert correlations(logits, naive_gguf.logits(model, IDS)).min() > 0.999
    if kind == "Q8_0":
        theirs = np.load(GOLDEN / "gpt-oss-mxfp4-llama-cpp.npy")
        assert correlations(logits[GOLDEN_POSITIONS], theirs).min() > 0.9995


def correlations(a: Logits, b: Logits) -> Logits:
    """Of each row of one with that of the other."""
    return np.array([np.corrcoef(left, right)[0, 1] for left, right in zip(a, b, strict=True)])
