# python -m pytest tests/cluster/test_cores.py
from pathlib import Path

import pytest

from dllama_py.cluster import cores
from dllama_py.cluster.cores import choose_threads, usable_cores
from dllama_py.errors import UsageError


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


def test_a_wish_is_fulfilled_within_reason(machine: Path) -> None:
    assert choose_threads(8, 2) == cores.ThreadChoice(8, "as asked for")
    assert choose_threads(9, 2) == cores.ThreadChoice(9, "as asked for, on only 8 CPUs")
    with pytest.raises(UsageError, match="100000 threads are wanted, at most 1024 can be"):
        choose_threads(100_000, 2)
