# python -m pytest tests/cluster/test_free_memory.py
"""Free memory: what the host says, what containers of both kinds leave, what `ulimit -v` leaves."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from dllama_py.cluster.free_memory import free_memory

MB = 1 << 20


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """8 GB of which 6 are available, in no container."""
    write(tmp_path / "proc/meminfo", "MemTotal: 8388608 kB\nMemFree: 1048576 kB\nMemAvailable: 6291456 kB")
    write(tmp_path / "proc/self/cgroup", "0::/")
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def free_on(host: Path) -> int | None:
    return free_memory(host / "proc", host / "cgroup").shared_bytes


def test_what_the_host_says(host: Path) -> None:
    assert free_on(host) == 6144 * MB


def test_a_container_of_version_2_with_its_file_cache_given_back(host: Path) -> None:
    write(host / "proc/self/cgroup", "0::/job/rank")
    write(host / "cgroup/memory.max", "max")
    write(host / "cgroup/job/memory.max", str(1000 * MB))
    write(host / "cgroup/job/memory.current", str(300 * MB))
    write(host / "cgroup/job/memory.stat", f"anon 5\ninactive_file {40 * MB}\nactive_file {60 * MB}")
    assert free_on(host) == 800 * MB
    write(host / "cgroup/job/rank/memory.max", str(100 * MB))
    write(host / "cgroup/job/rank/memory.current", str(120 * MB))
    assert free_on(host) == 0


def test_a_container_of_version_2_that_sees_itself_as_the_root(host: Path) -> None:
    write(host / "cgroup/memory.max", str(512 * MB))
    write(host / "cgroup/memory.current", str(12 * MB))
    assert free_on(host) == 500 * MB


def test_a_container_of_version_1(host: Path) -> None:
    write(host / "proc/self/cgroup", "5:cpu,cpuacct:/elsewhere\n4:memory:/docker/abc\n0::/")
    folder = host / "cgroup/memory/docker/abc"
    write(folder / "memory.limit_in_bytes", str(2000 * MB))
    write(folder / "memory.usage_in_bytes", str(1500 * MB))
    write(folder / "memory.stat", f"inactive_file 1\ntotal_inactive_file {100 * MB}\ntotal_active_file {200 * MB}")
    assert free_on(host) == 800 * MB
    write(folder / "memory.limit_in_bytes", "9223372036854771712")  # none
    assert free_on(host) == 6144 * MB


def test_a_system_that_does_not_say(tmp_path: Path) -> None:
    assert free_memory(tmp_path / "proc", tmp_path / "cgroup").shared_bytes is None


def test_this_host() -> None:
    free = free_memory()
    assert free.host_bytes is not None and 10 * MB < free.host_bytes < 1 << 50
    assert resource.getrlimit(resource.RLIMIT_AS)[0] != -1 or free.process_bytes is None


def test_a_limit_of_the_shell() -> None:
    program = "from dllama_py.cluster.free_memory import free_memory; print(free_memory().process_bytes)"
    command = f'ulimit -v 500000; exec "{sys.executable}" -c "{program}"'
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert 300 * MB < int(done.stdout) < 495 * MB
