# python -m pytest tests/test_naive.py
import json
from pathlib import Path

import numpy as np
import pytest

from tests import checkpoints, naive

GOLDEN = json.loads((Path(__file__).parent / "golden" / "tiny.json").read_text())["models"]


@pytest.mark.parametrize("name", checkpoints.NAMES)
def test_the_oracle_agrees_with_the_golden_logits(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    golden = GOLDEN[name]["float32_reference"]
    logits = naive.logits(checkpoints.tiny_folder(tmp_path_factory, name), golden["ids"])
    assert logits.shape == (100, 320)
    assert np.abs(logits[15] - golden["logits_at_15"]).max() < 2e-4
    assert np.abs(logits[99] - golden["logits_at_99"]).max() < 2e-4


@pytest.mark.parametrize("name", checkpoints.NAMES)
def test_the_oracle_continues_with_the_golden_tokens(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    golden = GOLDEN[name]["float32_reference"]
    ids = golden["ids"][:16] + golden["greedy_32_after_first_16_ids"]
    logits = naive.logits(checkpoints.tiny_folder(tmp_path_factory, name), ids)
    assert logits[15:-1].argmax(axis=1).tolist() == ids[16:]
