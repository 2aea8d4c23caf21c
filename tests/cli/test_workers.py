# python -m pytest tests/cli/test_workers.py
"""distributed-llama's way to start workers is answered with the mpirun line that does the same."""

import subprocess
import sys
from pathlib import Path

import pytest

from dllama_py.cli import main
from tests.checkpoints import tiny_model_file


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(list(arguments)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_a_worker(capsys: pytest.CaptureFixture[str]) -> None:
    line = told(capsys, "worker", "--port", "9998", "--nthreads", "4")
    assert line.startswith("error: there is no worker to start by hand: mpirun, called on the root, starts every rank")
    assert "mpirun -hosts ROOT,THIS_HOST -np 2 python -m dllama_py inference --model PATH" in line


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (
            ["inference", "--model", "a.m", "--prompt", "Hello there", "--workers", "10.0.0.2:9998", "10.0.0.3:9998",
             "10.0.0.4:9998", "--nthreads", "4"],
            "mpirun -hosts localhost,10.0.0.2,10.0.0.3,10.0.0.4 -np 4 python -m dllama_py inference --model a.m "
            "--prompt 'Hello there' --nthreads 4",
        ),
        (["--workers", "[fe80::1]:9998"], "mpirun -hosts localhost,fe80::1 -np 2 python -m dllama_py inference"),
        (["chat", "--workers=pi2:9998"], "mpirun -hosts localhost,pi2 -np 2 python -m dllama_py chat"),
        (["chat", "--workers=pi2:1", "pi3"], "mpirun -hosts localhost,pi2,pi3 -np 3 python -m dllama_py chat"),
    ],
)  # fmt: skip
def test_workers_become_hosts(arguments: list[str], command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert told(capsys, *arguments) == f"error: mpirun starts the workers, --workers does not exist: {command}"


def test_the_line_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(tiny_model_file(tmp_path / "tiny.m"))
    wish = ("--model", model, "--ids", "1", "--steps", "1", "--verbose")
    line = told(capsys, "inference", *wish, "--workers", "localhost:9998")
    command = line.partition("not exist: ")[2].replace("mpirun", str(Path(sys.executable).with_name("mpirun")), 1)
    done = subprocess.run(
        command.replace(" python ", f" {sys.executable} ").split(),
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    assert done.stdout.startswith("🔷️") and "rank 1:" in done.stderr
