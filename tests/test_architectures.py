# python -m pytest tests/test_architectures.py
"""Architectures beside those of tests/golden/tiny.json: llama.cpp, the oracle and the engine give the same logits.

The golden values are llama.cpp's, made by tests/peers/golden_logits.py with f32 weights and an f32 cache.
"""

from pathlib import Path

import numpy as np
import pytest

from tests import naive
from tests.checkpoints import MODELS, OTHER_NAMES, own_folder, tiny_gguf
from tests.gguf_models import GOLDEN_POSITIONS, IDS
from tests.support.engines import solo_logits


def golden(name: str) -> np.ndarray:
    """float32 [positions, V], of a standard deviation of 1.7."""
    logits: np.ndarray = np.load(Path(__file__).parent / "golden" / f"{name}-llama-cpp.npy")
    return logits


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_the_oracle_agrees_with_llama_cpp(tmp_path: Path, name: str) -> None:
    logits = naive.logits(own_folder(tmp_path / "model", name), IDS)[GOLDEN_POSITIONS]
    assert np.abs(logits - golden(name)).max() < 1e-4


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_the_engine_agrees_with_llama_cpp(tmp_path: Path, name: str) -> None:
    """From a GGUF file and from a folder, which give the same bits unless GGUF rounds a fact of the model."""
    (file,) = solo_logits(tiny_gguf(tmp_path / "model.gguf", name, "F32"), [IDS])
    (folder,) = solo_logits(own_folder(tmp_path / "model", name), [IDS], weights="f32")
    assert np.abs(file[GOLDEN_POSITIONS] - golden(name)).max() < 1e-4
    assert np.abs(folder[GOLDEN_POSITIONS] - golden(name)).max() < 1e-4
    assert (file.tobytes() == folder.tobytes()) == ("attention_factor" not in (MODELS[name].get("rope_scaling") or {}))


def test_experts_in_tensors_of_their_own_are_those_of_a_stack(tmp_path: Path) -> None:
    (stacked,) = solo_logits(tiny_gguf(tmp_path / "stacked", "tiny-mixtral", "F32"), [IDS[:8]])
    (apart,) = solo_logits(tiny_gguf(tmp_path / "apart", "tiny-mixtral", "F32", experts_apart=True), [IDS[:8]])
    assert apart.tobytes() == stacked.tobytes()
