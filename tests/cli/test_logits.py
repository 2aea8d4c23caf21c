# python -m pytest tests/cli/test_logits.py
"""Mode logits: the file that it writes, and places where it cannot write one."""

import errno
import json
import os
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from dllama_py.cli import logits, main
from tests.checkpoints import tiny_model_file


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(tiny_model_file(tmp_path / "tiny.m"))


def test_one_row_an_id(model: str, tmp_path: Path) -> None:
    out = tmp_path / "without suffix"
    assert main(["logits", "--model", model, "--ids", "1,2,3", "--out", str(out)]) == 0
    rows = np.load(out)
    assert (rows.shape, rows.dtype) == ((3, 320), np.float32)
    assert np.isfinite(rows).all()
    np.save(tmp_path / "again.npy", rows)
    assert (tmp_path / "again.npy").read_bytes() == out.read_bytes()


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
    assert told[-1] == f"error: {out}: cannot be written: {reason}; choose another --out"


@pytest.mark.parametrize("before", [None, b"an older file"])
@pytest.mark.parametrize("end", ["a full disk", "Ctrl-C while it computes"])
def test_what_was_there_stays_until_all_is_written(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes | None, end: str
) -> None:
    def fill_the_disk(file: BinaryIO, header: object) -> None:
        file.write(b"some of it")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    if end == "a full disk":
        monkeypatch.setattr(np.lib.format, "write_array_header_1_0", fill_the_disk)
    else:
        monkeypatch.setattr(logits, "_steps", interrupt)
    out = tmp_path / "folder" / "x.npy"
    out.parent.mkdir()
    if before is not None:
        out.write_bytes(before)
    assert main(["logits", "--model", model, "--ids", "1,2,3", "--out", str(out)]) in (2, 130)
    assert [path.read_bytes() for path in out.parent.iterdir()] == ([] if before is None else [before])


def test_ids_one_by_one_give_the_same_bits(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["logits", "--model", model, "--ids", "1,2,3,4,5", "--nthreads", "1", "--json"]
    for n_single in ("0", "2", "5"):
        assert main([*command, "--out", str(tmp_path / n_single), "--singly", n_single]) == 0
        assert json.loads(capsys.readouterr().out) == {"nodes": 1, "threads": 1, "shape": [5, 320], "ids": []}
    assert (tmp_path / "0").read_bytes() == (tmp_path / "2").read_bytes() == (tmp_path / "5").read_bytes()
    assert main([*command, "--out", str(tmp_path / "x"), "--singly", "6"]) == 2
    assert "--singly 6: expected a number of ids from 0 to 5" in capsys.readouterr().err


def test_an_answer_beside_the_logits(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["--model", model, "--nthreads", "1", "--json"]
    assert main(["inference", *command, "--ids", "5,6", "--steps", "3"]) == 0
    ids = json.loads(capsys.readouterr().out)["ids"]
    fed = ",".join(map(str, [5, 6, *ids[:-1]]))
    out = tmp_path / "x.npy"
    assert main(["logits", *command, "--ids", fed, "--singly", "2", "--answer", "3", "--out", str(out)]) == 0
    assert json.loads(capsys.readouterr().out)["ids"] == ids == np.load(out)[1:].argmax(axis=1).tolist()


def test_hashes_beside_the_logits(model: str, tmp_path: Path) -> None:
    files = ["--out", str(tmp_path / "x.npy"), "--hashes", str(tmp_path / "h.npz")]
    assert main(["logits", "--model", model, "--ids", "1,2,3", "--nthreads", "1", *files]) == 0
    with np.load(tmp_path / "h.npz") as hashes:
        assert (hashes["residual"].shape, hashes["leaves"].shape) == ((3, 3), (3, 2, 2, 8))
        assert hashes["residual"].dtype == np.int64
        assert hashes["nodes"].tolist() == [[0] * 8] * 2
