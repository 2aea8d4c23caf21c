# python -m pytest tests/cluster/test_cores.py
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dllama_py.cluster import cores
from dllama_py.cluster.cores import choose_threads, usable_cores
from dllama_py.errors import UsageError
from tests.checkpoints import tiny_model_file


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """A rank on CPU 0 of 8, started by hydra; -> what it binds itself to."""
    given: list[set[int]] = []
    monkeypatch.delenv("OMPI_COMM_WORLD_RANK", raising=False)
    monkeypatch.setenv("PMI_RANK", "0")
    monkeypatch.setattr(cores, "_allowed_cpus", lambda: given[-1] if given else {0})
    monkeypatch.setattr(cores, "launcher_cpus", lambda: set(range(8)))
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cpus: given.append(cpus))
    return given


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty /sys/devices, 8 allowed CPUs, no container limit."""
    monkeypatch.setattr(cores, "_allowed_cpus", lambda: set(range(8)))
    monkeypatch.setattr(cores, "_cpu_quota", lambda: None)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def test_smt_siblings_count_once(machine: Path) -> None:
    for cpu in range(8):
        write(machine / f"system/cpu/cpu{cpu}/topology/core_cpus_list", f"{cpu % 4},{cpu % 4 + 4}")
    assert usable_cores(machine) == (4, "4 physical cores, 4 SMT siblings left out")


def test_efficiency_cores_of_a_hybrid_are_left_out(machine: Path) -> None:
    write(machine / "cpu_core/cpus", "0-3")
    for cpu in range(8):
        siblings = f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}" if cpu < 4 else str(cpu)
        write(machine / f"system/cpu/cpu{cpu}/topology/core_cpus_list", siblings)
    assert usable_cores(machine) == (2, "2 physical cores, 4 efficiency CPUs left out, 2 SMT siblings left out")


def test_arm_cores_of_the_largest_capacity(machine: Path) -> None:
    for cpu in range(8):
        write(machine / f"system/cpu/cpu{cpu}/cpu_capacity", "1024" if cpu >= 6 else "446")
    assert usable_cores(machine) == (2, "2 physical cores, 6 efficiency CPUs left out")


def test_without_facts_every_cpu_is_a_core(machine: Path) -> None:
    assert usable_cores(machine) == (8, "8 physical cores")


def test_a_container_limit_wins(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "_cpu_quota", lambda: 2.5)
    assert usable_cores(machine) == (2, "a container limit of 2.5 CPUs")


def test_ranks_share_the_cores_of_their_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "usable_cores", lambda system: (6, "6 physical cores"))
    assert choose_threads(None, 4).n_threads == 1
    assert choose_threads(None, 2) == cores.ThreadChoice(3, "6 physical cores, shared by 2 ranks on this host")


def test_containers_share_the_cores_of_their_kernel_within_their_limits(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(machine / "system/cpu/online", "0-7")
    monkeypatch.setattr(cores, "SYSTEM", machine)
    assert choose_threads(None, 2, 1).n_threads == 4  # neither has a limit
    monkeypatch.setattr(cores, "_allowed_cpus", lambda: {0, 1})
    assert choose_threads(None, 4, 1).n_threads == 2  # two of eight CPUs each
    assert choose_threads(None, 4, 2).n_threads == 1
    assert choose_threads(None, 8, 1).n_threads == 1


def test_a_wish_is_fulfilled_within_reason(machine: Path) -> None:
    assert choose_threads(8, 2) == cores.ThreadChoice(8, "as asked for")
    assert choose_threads(9, 2) == cores.ThreadChoice(9, "as asked for, on only 8 CPUs")
    with pytest.raises(UsageError, match="100000 threads are wanted, at most 1024 can be"):
        choose_threads(100_000, 2)


def test_a_binding_that_was_asked_for_stays_and_is_told(bound: list[set[int]]) -> None:
    assert choose_threads(4, 2).warning.startswith("bound to 1 of 8 CPUs, on which all its threads run; start it with")
    assert choose_threads(None, 2).warning and choose_threads(None, 2).n_threads == 1
    assert choose_threads(1, 2).warning == ""
    assert bound == []


def test_a_binding_that_nobody_asked_for_is_undone(bound: list[set[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    assert choose_threads(1, 2).n_threads == 1 and bound == []  # it fits
    assert choose_threads(4, 2) == cores.ThreadChoice(4, "as asked for")
    assert bound == [set(range(8))]


def test_without_a_launcher_a_binding_is_the_users(bound: list[set[int]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PMI_RANK")
    assert choose_threads(4, 1).warning == "" and bound == []


@pytest.mark.skipif(sys.platform != "linux" or len(cores._allowed_cpus()) < 2, reason="needs two CPUs of Linux")
@pytest.mark.parametrize(("launcher", "n_told"), [("", 1), ("OMPI_COMM_WORLD_RANK=$PMI_RANK", 0)])
def test_the_real_command_on_one_cpu(launcher: str, n_told: int, tmp_path: Path) -> None:
    model = tiny_model_file(tmp_path / "tiny.m")
    script = f'if [ "$PMI_RANK" = 1 ]; then exec env {launcher} taskset -c 0 "$@"; fi; exec "$@"'
    mpirun = str(Path(sys.executable).with_name("mpirun"))
    program = [sys.executable, "-m", "dllama_py", "inference", "--model", str(model), "--ids", "1", "--steps", "1"]
    command = [mpirun, "-np", "2", "sh", "-c", script, "sh", *program, "--nthreads", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    told = [line for line in done.stderr.splitlines() if line.startswith("warning: rank 1 on ")]
    assert len(told) == n_told and all(": bound to 1 of " in line for line in told)
