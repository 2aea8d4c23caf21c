# python -m pytest tests/test_naive_gguf.py
from pathlib import Path

import numpy as np
import pytest

from tests import gguf_models, naive_gguf

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.parametrize("name", gguf_models.NAMES)
def test_the_oracle_agrees_with_llama_cpp(tmp_path: Path, name: str) -> None:
    """It keeps keys and values as halves, so it is not exact; logits have a standard deviation of 1.7."""
    model = gguf_models.tiny_gguf_model(tmp_path / "tiny.gguf", name)
    logits = naive_gguf.logits(model, gguf_models.IDS)[gguf_models.GOLDEN_POSITIONS]
    golden = np.load(GOLDEN / f"{name}-llama-cpp.npy")
    assert np.abs(logits - golden).max() < 0.05
    assert logits.argmax(axis=1).tolist() == golden.argmax(axis=1).tolist()
