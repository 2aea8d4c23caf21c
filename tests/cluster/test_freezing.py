# python -m pytest tests/cluster/test_freezing.py
"""A rank that is frozen by a signal, whatever it does, is named with its host, and the job ends with exit code 3."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.checkpoints import tiny_gguf

PROGRAMS = Path(__file__).parent / "programs"
MPIRUN = Path(sys.executable).with_name("mpirun")
DEADLINE_S = 200
PATIENCE_S = 4
PHASES = {
    "before the ranks meet": ("dllama_py.transport.world:_open_mpi", 1),
    "version check": ("dllama_py.transport.world:check_same_versions", 1),
    "settling": ("dllama_py.boot:_share", 1),
    "compiling": ("dllama_py.loading:warm_up", 1),
    "loading": ("dllama_py.loading:Walk", 1),
    "prefill": ("dllama_py.model.rank_model:RankModel.forward", 1),
    "decode": ("dllama_py.model.rank_model:RankModel.forward", 12),
    "the end": ("dllama_py.transport.mpi:MpiComm.farewell", 1),
    "after the end": ("dllama_py.transport.world:tell_watcher", 2),
}
PIPELINE = {
    "measuring": ("dllama_py.planning.agreement:measure", 1),
    "parts of the world": ("dllama_py.transport.mpi:MpiComm.part", 1),
    "decode": ("dllama_py.model.rank_model:RankModel.forward", 8),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf(tmp_path_factory.mktemp("model") / "model.gguf", distinct=True)


def ended(job: "subprocess.Popen[str]", words: str) -> tuple[int, str]:
    """-> exit code and standard error; no process with these words in its command is left."""
    _, errors = job.communicate(timeout=DEADLINE_S)
    deadline = time.monotonic() + DEADLINE_S
    while left := [
        each.info for each in psutil.process_iter(["pid", "cmdline"]) if words in (each.info["cmdline"] or [])
    ]:
        assert time.monotonic() < deadline, f"left behind: {left}"
        time.sleep(0.02)
    return job.returncode, errors


def start(*words: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [MPIRUN, "-np", "2", sys.executable, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "DLLAMA_PATIENCE_S": str(PATIENCE_S)},
    )


def is_named(rank: int, errors: str) -> bool:
    """And nobody else is."""
    here = os.uname().nodename
    named = re.findall(r"no sign of life from rank (\d) on (\S+) for (\d+) s: it is frozen", errors)
    return set(named) == {(str(rank), here, str(PATIENCE_S))}


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("phase", PHASES)
def test_a_frozen_rank_is_named_in_every_phase(phase: str, rank: int, model: Path, tmp_path: Path) -> None:
    own = tmp_path / "model.gguf"
    own.symlink_to(model)
    answer = ["inference", "--model", own, "--ids=5,6,7", "--steps=40", "--nthreads=1", "--json"]
    code, errors = ended(start(PROGRAMS / "freeze.py", rank, *PHASES[phase], *answer), str(own))
    assert code == 3
    assert is_named(rank, errors), errors


@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("phase", PIPELINE)
def test_a_frozen_stage_is_named(phase: str, rank: int, model: Path, tmp_path: Path) -> None:
    own = tmp_path / "model.gguf"
    own.symlink_to(model)
    split = "auto" if phase == "measuring" else "1,1"
    answer = [
        "inference",
        "--topology=pipeline",
        "--split",
        split,
        "--model",
        own,
        "--ids=5,6,7",
        "--steps=40",
        "--nthreads=1",
        "--json",
    ]
    code, errors = ended(start(PROGRAMS / "freeze.py", rank, *PIPELINE[phase], *answer), str(own))
    assert code == 3
    assert is_named(rank, errors), errors


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_freezes_while_nothing_is_asked_is_named(rank: int, model: Path, tmp_path: Path) -> None:
    """Of a program that uses the engine."""
    job = start(PROGRAMS / "guest.py", model, "wait", tmp_path)
    deadline = time.monotonic() + DEADLINE_S
    while not (tmp_path / "opened").exists():
        assert time.monotonic() < deadline, "the job did not start"
        time.sleep(0.02)
    os.kill(int((tmp_path / f"rank{rank}.pid").read_text()), signal.SIGSTOP)
    code, errors = ended(job, str(tmp_path))
    assert code == 3
    assert is_named(rank, errors), errors


def test_a_rank_that_is_busy_for_longer_than_that_is_not_missed(model: Path, tmp_path: Path) -> None:
    """Both sleep in turn, in Python, where they would compile."""
    program = f"""
import sys, time
from dllama_py.cluster import watcher
if watcher.is_wanted():
    sys.exit(watcher.watch())
from dllama_py import loading
from dllama_py.cli import main
from dllama_py.transport.environment import launched_rank
import os
warm_up = loading.warm_up
def slow(*arguments):
    until = time.monotonic() + {2 * PATIENCE_S} * (1 + launched_rank(os.environ))
    while time.monotonic() < until:
        sum(range(1000))
    warm_up(*arguments)
loading.warm_up = slow
sys.exit(main(sys.argv[1:]))
"""
    (tmp_path / "slow.py").write_text(program)
    answer = ["inference", "--model", model, "--ids=5,6,7", "--steps=4", "--nthreads=1", "--json"]
    code, errors = ended(start(tmp_path / "slow.py", *answer), str(tmp_path / "slow.py"))
    assert code == 0, errors
