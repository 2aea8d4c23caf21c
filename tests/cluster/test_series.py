# python -m pytest tests/cluster/test_series.py
"""Real jobs started from outside, those that end well and those that do not."""

import os
import signal
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from dllama_py.cluster import series
from dllama_py.cluster.job import Placement
from dllama_py.cluster.series import Job, answer_of
from dllama_py.errors import ClusterError, InputError, UsageError
from tests.checkpoints import tiny_model_file


@pytest.fixture
def model(tmp_path: Path) -> str:
    return str(tiny_model_file(tmp_path / "tiny.m"))


def children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def test_the_answer_is_the_last_line(model: str) -> None:
    arguments = ["inference", "--model", model, "--ids", "1,2,3", "--steps", "3", "--nthreads", "1", "--json"]
    answers = [answer_of(Job(Placement(n), arguments)) for n in (1, 2)]
    assert [answer["nodes"] for answer in answers] == [1, 2]
    assert answers[0]["ids"] == answers[1]["ids"]
    assert children() == []


def test_a_mode_that_answers_with_a_file(model: str, tmp_path: Path) -> None:
    out = tmp_path / "x.npy"
    arguments = ["logits", "--model", model, "--ids", "1,2", "--out", str(out)]
    assert answer_of(Job(Placement(2), arguments)) == {}
    assert out.exists()


def test_a_refusal_is_passed_on_in_one_line() -> None:
    with pytest.raises(InputError) as refused:
        answer_of(Job(Placement(2), ["inference", "--model", "/nowhere.m", "--ids", "1"]))
    assert str(refused.value).startswith("the job of inference on 2 nodes ended: /nowhere.m: ")


def test_the_environment_reaches_all_ranks(model: str) -> None:
    job = Job(Placement(2), ["inference", "--model", model, "--ids", "1"], {"DLLAMA_EXPECT_RANKS": "4"})
    with pytest.raises(ClusterError, match="DLLAMA_EXPECT_RANKS says 4"):
        answer_of(job)


@pytest.fixture
def listener(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The program of the job waits for ever, deaf to SIGINT and SIGTERM; it leaves its process id in the folder."""
    program = f"trap '' INT TERM; touch {tmp_path}/$$.pid; exec sleep 600"
    mpirun = str(Path(sys.executable).with_name("mpirun"))
    monkeypatch.setattr(series, "job_command", lambda *_: [mpirun, "-np", "2", "sh", "-c", program])
    return tmp_path


def left(folder: Path) -> list[int]:
    """Process ids of the ranks that still live, after a moment in which they may die."""
    started = [int(path.stem) for path in folder.glob("*.pid")]
    assert len(started) == 2
    deadline = time.monotonic() + 60
    while (alive := [pid for pid in started if psutil.pid_exists(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    return alive


def test_a_job_without_end_is_ended(listener: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "ENDING_S", 0.5)
    with pytest.raises(ClusterError, match="the job of wait on 2 nodes did not end within 4 s and was ended"):
        answer_of(Job(Placement(2), ["wait"], patience_s=4))
    assert left(listener) == []


def test_ctrl_c_ends_the_job_too(listener: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "ENDING_S", 0.5)

    def press() -> None:
        while len(list(listener.glob("*.pid"))) < 2:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        answer_of(Job(Placement(2), ["wait"], patience_s=60))
    assert left(listener) == []


def test_a_job_cannot_start_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    series.refuse_under_launcher("drift")
    monkeypatch.setenv("PMI_RANK", "1")
    with pytest.raises(UsageError, match="drift starts its own jobs and cannot be one; run it without mpirun"):
        series.refuse_under_launcher("drift")


def test_without_a_reason() -> None:
    job = Job(Placement(1), ["wait"])
    assert str(series._failure(job, 3, "\n")) == "the job of wait on 1 node ended: it gave no reason"
