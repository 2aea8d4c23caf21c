# python -m pytest tests/cluster/test_busy.py
from pathlib import Path

import pytest

from dllama_py.cluster import busy
from dllama_py.cluster.busy import CpuTimes, busy_cores, busy_line, busy_seconds, competing_cores, cpu_times
from dllama_py.cluster.cores import beside_others
from dllama_py.transport.comm import SoloComm

STAT = """cpu  1000 10 200 90000 50 5 15 70 400 0
cpu0 600 10 100 45000 50 5 15 0 400 0
cpu1 400 0 100 45000 0 0 0 70 0 0
intr 12345
"""


@pytest.mark.parametrize(
    ("cpus", "seconds"), [(None, 13.0), ({0}, 7.3), ({1}, 5.7), ({0, 1}, 13.0), ({7}, None)], ids=str
)
def test_busy_seconds_are_read_off_the_lines_of_the_cpus(cpus: set[int] | None, seconds: float | None) -> None:
    assert busy_seconds(STAT, cpus, 100) == seconds


@pytest.mark.parametrize("text", ["", "cpu\n", "cpu 1 2 3\n"])
def test_a_system_that_tells_nothing_is_not_busy(tmp_path: Path, text: str) -> None:
    (tmp_path / "stat").write_text(text)
    before, after = cpu_times(proc=tmp_path), cpu_times(proc=tmp_path)
    assert before.busy_s == before.own_s and after.busy_s == after.own_s


def test_what_the_ranks_of_a_machine_use_is_not_others() -> None:
    before = CpuTimes(100.0, 50.0, 0.0)
    ranks = [CpuTimes(110.0, 75.0, 9.0), CpuTimes(110.1, 75.1, 6.0)]
    assert competing_cores(before, ranks) == pytest.approx(1.0)
    assert competing_cores(before, [CpuTimes(110.0, 60.0, 10.5)]) == 0.0  # ticks are coarser than a process's clock
    assert competing_cores(before, [CpuTimes(100.0, 50.0, 0.0)]) == 0.0


@pytest.mark.parametrize(
    ("n_cores", "in_use", "n_threads"),
    [(2, 0.0, 2), (2, 0.6, 2), (2, 0.8, 1), (2, 1.0, 1), (2, 2.0, 1), (1, 1.0, 1), (8, 1.1, 7), (8, 2.9, 5)],
)
def test_cores_that_others_use_get_no_thread(n_cores: int, in_use: float, n_threads: int) -> None:
    found, how = beside_others(n_cores, "so many cores", in_use)
    assert found == n_threads
    assert ("in use by others" in how) == (n_threads < n_cores)


def test_ranks_tell_the_root_of_their_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(busy, "cpu_times", lambda: CpuTimes(110.0, 75.0, 9.0))
    in_use = busy_cores(SoloComm(), CpuTimes(100.0, 50.0, 4.0))
    assert in_use == [2.0] and "used 2.0 cores of " in busy_line(SoloComm().hosts, in_use)


def test_busy_machines_are_named_with_what_others_use() -> None:
    assert busy_line(["a", "b"], [0.1, 0.0]) == ""
    assert busy_line(["a", "a", "b"], [1.0, 1.0, 0.2]).startswith(
        "the machine is busy: other programs used 1.0 cores of a; "
    )
