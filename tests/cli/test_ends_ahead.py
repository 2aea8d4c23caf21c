# python -m pytest tests/cli/test_ends_ahead.py
"""An answer from a pipeline that ends while steps are under way that were sent ahead."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.checkpoints import tiny_gguf

MPIRUN = Path(sys.executable).with_name("mpirun")
STAGES = [str(MPIRUN), "-np", "2", sys.executable, "-m", "dllama_py", "inference", "--topology", "pipeline"]
WISH = ["--split", "1,1", "--nthreads", "1", "--speculate", "lookup", "--ids", "5,6,7,5,6,7", "--steps", "4000"]
DEADLINE_S = 60

Begin = Callable[[int], subprocess.Popen[str]]


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Begin]:
    """Starts an answer and returns when so many tokens have come, of a text that goes round."""
    model = tiny_gguf(tmp_path / "model.gguf", max_position_embeddings=4096)
    jobs: list[subprocess.Popen[str]] = []

    def start(n_tokens: int) -> subprocess.Popen[str]:
        jobs.append(
            subprocess.Popen(
                [*STAGES, *WISH, "--model", str(model)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
        job = jobs[-1]
        assert job.stdout is not None
        for line in job.stdout:
            n_tokens -= "Pred" in line
            if not n_tokens:
                break
        return job

    yield start
    for job in jobs:
        job.kill()


def ranks(job: subprocess.Popen[str]) -> dict[int, psutil.Process]:
    """By number: the processes that compute, each the child of its watcher."""
    leaves = [each for each in psutil.Process(job.pid).children(recursive=True) if not each.children()]
    return {int(each.environ()["PMI_RANK"]): each for each in leaves}


def test_a_stage_that_dies_is_named(begin: Begin) -> None:
    job = begin(300)
    ranks(job)[1].kill()
    _, errors = job.communicate(timeout=DEADLINE_S)
    assert job.returncode == 3
    assert [line for line in errors.splitlines() if "was killed by signal 9" in line][-1:] == errors.splitlines()[-1:]
    assert "Traceback" not in errors


def test_ctrl_c_leaves_nothing(begin: Begin) -> None:
    job = begin(300)
    processes = list(ranks(job).values())
    job.send_signal(signal.SIGINT)
    _, errors = job.communicate(timeout=DEADLINE_S)
    assert job.returncode == 130
    assert "Traceback" not in errors
    assert psutil.wait_procs(processes, DEADLINE_S)[1] == []
