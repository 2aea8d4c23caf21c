# python -m pytest tests/cluster/test_watcher.py
"""Real mpirun jobs of 4 ranks that end badly; the program is programs/exchange.py."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

PROGRAM = Path(__file__).parent / "programs" / "exchange.py"
DEADLINE_S = 60


class Job:
    """One mpirun of the program, its output, and the process ids of its ranks and their watchers."""

    def __init__(self, folder: Path, event: str, patience_s: str) -> None:
        self.folder = folder
        mpirun = Path(sys.executable).with_name("mpirun")
        self.process = subprocess.Popen(
            [mpirun, "-np", "4", sys.executable, PROGRAM, folder, event],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "DLLAMA_PATIENCE_S": patience_s},
        )

    def ranks(self) -> list[int]:
        """Process ids, by rank, once all four are at work."""
        deadline = time.monotonic() + DEADLINE_S
        files = [self.folder / f"rank{rank}.pid" for rank in range(4)]
        while not all(file.exists() and file.read_text() for file in files):
            assert time.monotonic() < deadline, "the job did not start"
            time.sleep(0.02)
        time.sleep(0.1)
        return [int(file.read_text()) for file in files]

    def end(self) -> tuple[int, str, str]:
        """-> exit code, standard output, standard error; must come within the deadline and leave no process."""
        output, errors = self.process.communicate(timeout=DEADLINE_S)
        deadline = time.monotonic() + DEADLINE_S
        while left := [pid for pid in self.ranks() if _lives(pid)]:
            assert time.monotonic() < deadline, f"left behind: {left}"
            time.sleep(0.02)
        return self.process.returncode, output, errors


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def start(tmp_path: Path) -> Iterator[type[Job]]:
    jobs: list[Job] = []

    def begin(event: str, patience_s: str = "60") -> Job:
        jobs.append(Job(tmp_path, event, patience_s))
        return jobs[-1]

    yield begin  # type: ignore[misc]
    for job in jobs:
        if job.process.poll() is None:
            job.process.kill()


def test_a_job_that_is_done_says_nothing(start: type[Job]) -> None:
    assert start("done").end() == (0, "", "")


def test_a_rank_that_leaves_by_itself_ends_the_others(start: type[Job]) -> None:
    assert start("exit").end() == (5, "", "")


@pytest.mark.parametrize(("number", "name"), [(9, "SIGKILL"), (11, "SIGSEGV"), (40, "real-time signal")])
def test_a_killed_rank_is_named_once(start: type[Job], number: int, name: str) -> None:
    job = start("wait")
    os.kill(job.ranks()[2], number)
    code, output, errors = job.end()
    assert (code, output) == (3, "")  # no banner of the launcher
    before, line = errors.splitlines()
    assert before == ""  # a half written answer ends there
    assert line.startswith("rank 2 on ")
    assert f"was killed by signal {number} ({name}): " in line


def test_a_frozen_rank_is_named_by_those_who_wait_for_it(start: type[Job]) -> None:
    job = start("wait", "2")
    os.kill(job.ranks()[2], signal.SIGSTOP)
    code, output, errors = job.end()
    assert (code, output) == (3, "")
    assert errors
    for line in filter(None, errors.splitlines()):  # it has two partners; ranks that wait for these say nothing
        assert re.match(r"rank [03] on .*: no sign of life from rank 2 on .* for 2 s: it is frozen or the link", line)


@pytest.mark.parametrize("event", ["freeze at the end", "freeze while idle"])
def test_a_rank_that_froze_between_two_steps_is_missed_by_the_root(start: type[Job], event: str) -> None:
    code, output, errors = start(event, "1").end()
    assert (code, output) == (3, "")
    before, line = errors.splitlines()
    assert before == ""  # a half written answer ends there
    assert re.match(r"rank 0 on .*: no sign of life from rank 2 on .* for 1 s: it is frozen or the link is cut", line)


def test_the_root_may_take_its_time_before_the_end(start: type[Job]) -> None:
    assert start("done with a late root", "4").end() == (0, "", "")


def test_a_job_that_was_stopped_and_goes_on_ends_well(start: type[Job]) -> None:
    job = start("done later", "2")
    ranks = job.ranks()
    for number, pause_s in ((signal.SIGSTOP, 3.0), (signal.SIGCONT, 0.0)):
        for pid in ranks:
            os.kill(pid, number)
        time.sleep(pause_s)
    assert job.end() == (0, "", "")


def test_an_exception_is_told_once_with_its_traceback(start: type[Job]) -> None:
    code, output, errors = start("raise").end()
    assert (code, output) == (1, "")
    assert errors.startswith("\nrank 2 on ")
    assert errors.endswith("RuntimeError: a bug in layer 1\n")
    assert errors.count("Traceback") == 1


def test_an_agreed_error_is_one_line_and_exit_2(start: type[Job]) -> None:
    assert start("usage").end() == (2, "", "no such model\n")


def test_ctrl_c_leaves_nothing(start: type[Job]) -> None:
    job = start("wait")
    job.ranks()
    job.process.send_signal(signal.SIGINT)
    code, _, errors = job.end()
    assert code == 130
    assert "Traceback" not in errors


def test_a_killed_watcher_takes_its_rank_along(start: type[Job]) -> None:
    job = start("wait")
    os.kill(psutil.Process(job.ranks()[1]).ppid(), signal.SIGKILL)
    code, _, _ = job.end()
    assert code != 0


def test_a_world_of_the_wrong_size_is_refused() -> None:
    environment = {**os.environ, "DLLAMA_EXPECT_RANKS": "4"}
    program = "from dllama_py.transport.world import joined_world; joined_world().__enter__()"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr.splitlines()[-1] == (
        "dllama_py.errors.ClusterError: this is a world of 1, but DLLAMA_EXPECT_RANKS says 4: "
        "start it with mpirun -np 4, or unset the variable"
    )
