# python -m pytest tests/kernels/test_arm.py
"""ARM CPUs compute the same bits: the kernels are compiled for them and run under an emulator that knows no more."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kernels.arm.team import EmulatedTeam
from tests.kernels.fingerprint import facts
from tests.kernels.test_cpus import known

EMULATOR = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
pytestmark = [
    pytest.mark.timeout(600),  # compiling for every CPU
    pytest.mark.skipif(EMULATOR is None, reason="no qemu-aarch64; Debian has it in qemu-user-static"),
    pytest.mark.skipif(importlib.util.find_spec("ziglang") is None, reason="no ziglang; pip install -e '.[arm]'"),
]

CPUS = {  # name for LLVM and qemu: what numba is told, the path that the kernels choose
    "cortex-a72": ("+neon", "NEON"),  # Raspberry Pi 4
    "cortex-a76": ("+neon,+dotprod,+crc", "NEON dotprod"),  # Raspberry Pi 5
}


def compile_kernels(cpu: str, folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.kernels.arm.objects", cpu, str(folder)]
    env = os.environ | {"NUMBA_CPU_FEATURES": CPUS[cpu][0]}
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Path]]:
    """Compiled kernels of each CPU; all at once, because that is what takes the time."""
    folders = {cpu: tmp_path_factory.mktemp(cpu) for cpu in CPUS}
    jobs = {cpu: compile_kernels(cpu, folder) for cpu, folder in folders.items()}
    try:
        for job in jobs.values():
            out, _ = job.communicate()
            assert job.returncode == 0, out
        yield folders
    finally:
        for job in jobs.values():
            job.kill()


@pytest.fixture(scope="module", params=CPUS)
def cpu(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module", params=[1, 2], ids=["1_thread", "2_threads"])
def team(request: pytest.FixtureRequest, folders: dict[str, Path], cpu: str) -> Iterator[EmulatedTeam]:
    team = EmulatedTeam([str(EMULATOR), "-cpu", cpu], folders[cpu], request.param)
    yield team
    team.close()


def test_kernels_choose_the_path_of_the_cpu(folders: dict[str, Path], cpu: str) -> None:
    assert json.loads((folders[cpu] / "kernels.json").read_text())["path"] == CPUS[cpu][1]


def test_it_computes_the_known_bits(team: EmulatedTeam, cpu: str) -> None:
    way = CPUS[cpu][1]
    assert facts(team, way) == known(way)
