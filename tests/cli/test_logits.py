# python -m pytest tests/cli/test_logits.py
"""Mode logits: the file that it writes, and places where it cannot write one."""

from pathlib import Path

import numpy as np
import pytest

from dllama_py.cli import main
from tests.checkpoints import tiny_model_file


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(tiny_model_file(tmp_path / "tiny.m"))


def test_one_row_an_id(model: str, tmp_path: Path) -> None:
    out = tmp_path / "without suffix"
    assert main(["logits", "--model", model, "--ids", "1,2,3", "--out", str(out)]) == 0
    logits = np.load(out)
    assert (logits.shape, logits.dtype) == ((3, 320), np.float32)
    assert np.isfinite(logits).all()


@pytest.mark.parametrize(
    ("out", "reason"),
    [
        ("/dev/full", "No space left on device"),
        ("/dev", "Is a directory"),
        ("/nowhere/a.npy", "No such file or directory"),
    ],
)
def test_where_no_file_can_be(model: str, out: str, reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logits", "--model", model, "--ids", "1,2,3", "--out", out]) == 2
    told = capsys.readouterr().err.splitlines()
    assert told[-1] == f"error: --out {out}: cannot be written ({reason}); choose another file"
