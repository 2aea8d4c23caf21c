# python -m pytest tests/transport/test_mpi_rules.py
"""tests/mpi/conftest.py keeps its promises: a failing rank ends the job, nothing is skipped, something runs."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
HEAD = "import time\nimport pytest\npytestmark = pytest.mark.mpi\n"


def run_mpi_tests(folder: Path, body: str, *options: str) -> tuple[int, str]:
    """-> exit code and standard error of two ranks that run these tests under the rules."""
    shutil.copy(ROOT / "tests" / "mpi" / "conftest.py", folder)
    (folder / "test_sample.py").write_text(HEAD + body)
    mpirun = Path(sys.executable).with_name("mpirun")
    pytest_options = ["-q", "--with-mpi", "--timeout-method=thread", "-p", "no:cacheprovider", *options]
    command = [mpirun, "-np", "2", sys.executable, "-m", "pytest", f"--rootdir={folder}", *pytest_options, folder]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    return done.returncode, done.stderr


def test_passing_tests_pass(tmp_path: Path) -> None:
    assert run_mpi_tests(tmp_path, "def test_one(comm): comm.barrier()")[0] == 0


def test_a_failure_on_one_rank_is_told_and_ends_the_job(tmp_path: Path) -> None:
    body = "def test_one(comm):\n    assert comm.rank == 0, 'not here'\n    comm.barrier()\n    time.sleep(300)"
    code, errors = run_mpi_tests(tmp_path, body)
    assert code != 0
    assert "rank 1 failed test_sample.py::test_one (call)" in errors
    assert "AssertionError: not here" in errors


def test_a_rank_that_waits_for_ever_runs_into_the_timeout(tmp_path: Path) -> None:
    body = "def test_one(comm):\n    if comm.rank: comm.barrier()\n    else: time.sleep(300)"
    assert run_mpi_tests(tmp_path, body, "--timeout=2")[0] != 0


@pytest.mark.parametrize(
    ("body", "outcome"),
    [
        ("def test_one(): pytest.skip('not today')\ndef test_two(): pass", "'passed': 1, 'skipped': 1"),
        ("@pytest.mark.mpi(min_size=3)\ndef test_one(): pass\ndef test_two(): pass", "'passed': 1, 'skipped': 1"),
        ("@pytest.mark.mpi(sizes=(4,))\ndef test_one(): pass", "'passed': 0, 'skipped': 0"),
    ],
)
def test_skipping_and_running_nothing_are_failures(tmp_path: Path, body: str, outcome: str) -> None:
    code, errors = run_mpi_tests(tmp_path, body)
    assert code != 0
    assert f"mpi tests must all run, but there were {{{outcome}, 'xfailed': 0}}" in errors
