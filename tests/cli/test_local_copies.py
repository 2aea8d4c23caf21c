# python -m pytest tests/cli/test_local_copies.py
"""A pipeline as users start it, in which a rank's copy of the model differs: the ids, the line, the exit code."""

import json
import subprocess
import sys
from pathlib import Path
from socket import gethostname

import pytest

from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.formats.mapped import MappedCheckpoint
from tests.checkpoints import tiny_gguf

MPIRUN = Path(sys.executable).with_name("mpirun")
ASKED = ["--ids", "5,6,7,8", "--steps", "12", "--nthreads", "1", "--json"]
PIPELINE = ["--topology", "pipeline", "--split", "2,2"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return tiny_gguf(tmp_path / "model.gguf", distinct=True, num_hidden_layers=4)


@pytest.fixture
def copy(model: Path, tmp_path: Path) -> Path:
    """Of the model, with a scale in the second stage that is no number."""
    checkpoint, data = open_checkpoint(model), bytearray(model.read_bytes())
    assert isinstance(checkpoint, MappedCheckpoint)
    offset = checkpoint.stored["layers.3.down"].offset
    data[offset : offset + 20] = b"\xff\x7f" * 10
    (tmp_path / "copy.gguf").write_bytes(data)
    return tmp_path / "copy.gguf"


def answer(*command: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False, timeout=200)


def test_the_answer_is_that_of_one_rank_and_a_line_names_host_and_file(model: Path, copy: Path) -> None:
    alone = answer(sys.executable, "-m", "dllama_py", "inference", "--model", model, *ASKED)
    program = [MPIRUN, "-np", "2", sys.executable, "-m", "tests.support.other_copy", copy]
    found = answer(*program, "inference", "--model", model, *PIPELINE, *ASKED)
    assert (alone.returncode, found.returncode) == (0, 0), found.stderr
    assert json.loads(found.stdout)["ids"] == json.loads(alone.stdout)["ids"]
    (line,) = [line for line in found.stderr.splitlines() if "differs" in line]
    assert line == (
        f"rank 1 on {gethostname()}: {model}: differs from the root's file in layers.3.down; copy it again; the root's "
        "bytes are used (docs/troubleshooting.md#local-copy)"
    )


def test_strict_ends_with_one_line_and_2(model: Path, copy: Path) -> None:
    program = [MPIRUN, "-np", "2", sys.executable, "-m", "tests.support.other_copy", copy]
    found = answer(*program, "inference", "--model", model, *PIPELINE, "--local-copies", "strict", *ASKED)
    assert (found.returncode, found.stdout) == (2, "")
    (line,) = [line for line in found.stderr.splitlines() if "differs" in line]
    assert line.startswith(f"error: rank 1 on {gethostname()}: {model}: differs from the root's file in layers.3.down")
    assert line.endswith("or leave --local-copies strict out (docs/troubleshooting.md#local-copy)")


def test_only_a_pipeline_reads_copies(model: Path) -> None:
    found = answer(sys.executable, "-m", "dllama_py", "inference", "--model", model, "--local-copies", "strict", *ASKED)
    assert found.returncode == 2
    assert "--local-copies is for pipelines; add --topology pipeline or leave it out" in found.stderr
