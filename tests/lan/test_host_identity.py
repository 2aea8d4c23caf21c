# python -m pytest tests/lan/test_host_identity.py
"""Cores, memory, plans and versions go by machines and not by their names: two of one name, and one with two names."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dllama_py
from dllama_py.cluster.cores import SYSTEM, usable_cores
from dllama_py.cluster.free_memory import free_memory
from tests.checkpoints import tiny_gguf
from tests.lan.hosts import OVER_TCP, Lan, lan

SIZES = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2}
NEARLY = 0.7  # of what was free a moment before or after

pytestmark = pytest.mark.usefixtures("_possible")


@pytest.fixture
def pis() -> Iterator[Lan]:
    with lan(2, called="raspberrypi") as network:
        yield network


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("identity") / "model.gguf"
    tiny_gguf(path, "tiny-llama", **SIZES)
    return path


def run(hosts: Lan, model: Path, folder: Path, **environment: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """Of a pipeline of two stages: what it told, its plan, what it said."""
    plan = folder / "plan.json"
    program = [sys.executable, "-m", "dllama_py", "inference", "--model", str(model), "--ids", "5,6,7", "--steps", "2"]
    command = hosts.mpirun(*program, "--topology", "pipeline", "--save-plan", str(plan), "--json", "--verbose")
    done = subprocess.run(
        command,
        env=hosts.environment({**OVER_TCP, **environment}),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), json.loads(plan.read_text()), done.stderr


def free_bytes() -> int:
    free = free_memory().shared_bytes
    assert free is not None
    return free


def test_two_machines_of_one_name(pis: Lan, model: Path, tmp_path: Path) -> None:
    before = free_bytes()
    told, plan, said = run(pis, model, tmp_path)
    assert [stage["hosts"] for stage in plan["stages"]] == [["raspberrypi"], ["raspberrypi (2)"]]
    assert all(stage["free_bytes"] > NEARLY * min(before, free_bytes()) for stage in plan["stages"])
    assert 1 <= told["threads"] <= usable_cores(SYSTEM)[0] and "shared by" not in said  # each sees the other's work
    assert "2 machines are called raspberrypi: rank 0 on raspberrypi, rank 1 on raspberrypi (2)" in said
    assert "\nrank 1 on raspberrypi (2) " in said  # the table of memory


def test_one_machine_with_two_names(model: Path, tmp_path: Path) -> None:
    before = free_bytes()
    with lan(2) as hosts:
        told, plan, said = run(hosts, model, tmp_path, DLLAMA_HOST_ID="one")
    assert [stage["hosts"] for stage in plan["stages"]] == [["node1"], ["node2"]]
    assert all(stage["free_bytes"] < NEARLY * max(before, free_bytes()) for stage in plan["stages"])
    assert told["threads"] == max(usable_cores(SYSTEM)[0] // 2, 1) and "shared by 2 ranks on this host" in said
    assert "machines are called" not in said


def test_other_sources_on_a_machine_of_the_same_name(pis: Lan, model: Path, tmp_path: Path) -> None:
    """They compute other bits, perhaps."""
    package = Path(dllama_py.__file__).parent
    shutil.copytree(package, tmp_path / "dllama_py", ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / "dllama_py" / "sizes.py").open("a") as file:
        file.write("# another commit\n")
    script = f'if [ "$PMI_RANK" = 1 ]; then cd {tmp_path}; else cd {package.parent}; fi; exec "$@"'
    program = [sys.executable, "-m", "dllama_py", "inference", "--model", str(model), "--ids", "5", "--steps", "1"]
    command = pis.mpirun("sh", "-c", script, "sh", *program)
    done = subprocess.run(command, env=pis.environment(), capture_output=True, text=True, timeout=150, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert "rank 1 on raspberrypi (2) has dllama-py sources " in done.stderr
    assert ", rank 0 on raspberrypi has dllama-py sources " in done.stderr
