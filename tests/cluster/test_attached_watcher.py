# python -m pytest tests/cluster/test_attached_watcher.py
"""Programs that use the engine under mpirun and end badly: the same lines and exit codes as of the program itself."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.checkpoints import tiny_gguf

PROGRAM = Path(__file__).parent / "programs" / "guest.py"
DEADLINE_S = 200
HERE = os.uname().nodename

Begin = Callable[[str], "subprocess.Popen[str]"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf(tmp_path_factory.mktemp("model") / "model.gguf", distinct=True)


@pytest.fixture
def begin(model: Path, tmp_path: Path) -> Iterator[Begin]:
    """Starts the program on two ranks."""
    jobs: list[subprocess.Popen[str]] = []

    def start(event: str) -> "subprocess.Popen[str]":
        command = [Path(sys.executable).with_name("mpirun"), "-np", "2", sys.executable, PROGRAM]
        job = subprocess.Popen(
            [*command, model, event, tmp_path],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        jobs.append(job)
        return job

    yield start
    for job in jobs:
        if job.poll() is None:
            job.kill()


def ended(job: "subprocess.Popen[str]", folder: Path) -> tuple[int, str, str]:
    """-> exit code, standard output, standard error; nothing of it is left."""
    output, errors = job.communicate(timeout=DEADLINE_S)
    deadline = time.monotonic() + DEADLINE_S
    ranks = [int(file.read_text()) for file in folder.glob("*.pid")]
    while left := [process.info for process in psutil.process_iter(["pid", "cmdline"]) if is_of(process.info, ranks)]:
        assert time.monotonic() < deadline, f"left behind: {left}"
        time.sleep(0.02)
    return job.returncode, output, errors


def is_of(process: dict[str, list[str] | int | None], ranks: list[int]) -> bool:
    """Whether a process is a rank, or the watcher of one; what has ended has no command line any more."""
    words = process["cmdline"]
    if not isinstance(words, list) or not words:
        return False
    watched = [rank for rank in ranks if str(rank) in words and "dllama_py.cluster.attached_watcher" in words]
    return process["pid"] in ranks or bool(watched)


def opened(folder: Path) -> None:
    """Waits until the engine is."""
    deadline = time.monotonic() + DEADLINE_S
    while not (folder / "opened").exists():
        assert time.monotonic() < deadline, "the job did not start"
        time.sleep(0.02)


def test_a_job_that_is_done_says_nothing(begin: Begin, tmp_path: Path) -> None:
    code, output, errors = ended(begin("answer"), tmp_path)
    assert (code, output.splitlines()[-1], errors) == (0, "None", "")


@pytest.mark.parametrize("rank", [0, 1])
def test_a_killed_rank_is_named(begin: Begin, tmp_path: Path, rank: int) -> None:
    job = begin("wait")
    opened(tmp_path)
    os.kill(int((tmp_path / f"rank{rank}.pid").read_text()), signal.SIGKILL)
    code, output, errors = ended(job, tmp_path)
    assert (code, output) == (3, "")  # no banner of the launcher
    before, line = errors.splitlines()
    assert before == ""  # a half written answer ends there
    assert line.startswith(f"rank {rank} on {HERE} was killed by signal 9 (SIGKILL): out of memory?")


@pytest.mark.parametrize("threads", [2000, 0, -5])
def test_a_worker_that_cannot_begin_ends_both_with_one_reason(begin: Begin, tmp_path: Path, threads: int) -> None:
    """The root's program is told, and may go on; the worker says it and goes."""
    code, output, errors = ended(begin(f"threads {threads}"), tmp_path)
    reason = f"threads is {threads}; expected a whole number from 1"
    if threads == 2000:
        reason = "2000 threads are wanted, at most 1024 can be; leave --nthreads out"
    assert (code, output) == (2, f"UsageError: rank 1 on {HERE}: {reason}\n")
    assert errors == f"error: rank 1 on {HERE}: {reason}\n"


def test_a_model_that_cannot_be_opened_is_told_to_the_program(begin: Begin, model: Path, tmp_path: Path) -> None:
    spoiled = tmp_path / "spoiled.gguf"
    spoiled.write_bytes(model.read_bytes()[:1000])
    command = [Path(sys.executable).with_name("mpirun"), "-np", "2", sys.executable, PROGRAM, spoiled, "answer"]
    done = subprocess.run([*command, tmp_path], capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    assert (done.returncode, done.stderr) == (2, "")
    assert done.stdout.startswith("InputError: ") and done.stdout.count("\n") == 1


@pytest.mark.parametrize(("left_with", "code"), [(0, 3), (1, 1), (2, 2)])
def test_a_root_that_leaves_without_meeting_the_others_takes_them_along(
    begin: Begin, tmp_path: Path, left_with: int, code: int
) -> None:
    found, output, errors = ended(begin(f"leave {left_with}"), tmp_path)
    assert (found, output) == (code, "")
    assert ("the program has ended before its engine" in errors) == (left_with == 0)
    assert "BAD TERMINATION" not in errors


def test_ctrl_c_leaves_nothing(begin: Begin, tmp_path: Path) -> None:
    job = begin("wait")
    opened(tmp_path)
    job.send_signal(signal.SIGINT)
    code, _, errors = ended(job, tmp_path)
    assert code != 0
    assert "was killed by signal" not in errors
