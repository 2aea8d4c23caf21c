# python -m pytest tests/lan/test_engine.py
"""The real commands on several hosts: one answer, its bytes on the wire, and the end when a cable is pulled."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoints import own_folder
from tests.lan.hosts import Host, Lan

SIZES = {"hidden_size": 512, "intermediate_size": 512, "num_hidden_layers": 4, "max_position_embeddings": 8192}
INFERENCE = ["-m", "dllama_py", "inference", "--nthreads", "1", "--ids", "5,6,7,8", "--json"]
FEW, MANY = 8, 108
DEADLINE_S = 15


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return own_folder(tmp_path_factory.mktemp("lan") / "model", "tiny-qwen3", distinct=True, **SIZES)


def answer(command: list[str], environment: dict[str, str] | None = None) -> dict[str, Any]:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=150)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize(("n_hosts", "exchange"), [(2, "f32"), (4, "q80")])
def test_the_answer_of_one_node_over_the_wire(
    network: Callable[[int], Lan], model: Path, n_hosts: int, exchange: str
) -> None:
    program = [sys.executable, *INFERENCE, "--model", str(model), "--buffer-float-type", exchange, "--steps"]
    alone = answer([*program, str(MANY)])
    lan = network(n_hosts)
    crossed = []
    for n_tokens in (FEW, MANY):
        before = [host.sent_bytes for host in lan.hosts]
        together = answer(lan.mpirun(*program, str(n_tokens)), lan.environment())
        crossed.append([host.sent_bytes - was for host, was in zip(lan.hosts, before, strict=True)])
    assert len(alone["ids"]) == MANY
    assert together["ids_sha256"] == alone["ids_sha256"]
    assert together["nodes"] == n_hosts
    # Both sent the same weights; what the longer answer sent more are its tokens, headers included. Of four, one relays
    # what the root counts as its own copy for each.
    sent, *back = [(many - few) / (MANY - FEW) for few, many in zip(*crossed, strict=True)]
    assert 0.8 < sent / together["sent_bytes_per_token"] < 1.3
    assert all(0.8 < each / together["received_bytes_per_token"] < 1.6 for each in back)


@pytest.mark.parametrize("n_hosts", [2, 4])
def test_a_pulled_cable_is_told_in_one_line(network: Callable[[int], Lan], model: Path, n_hosts: int) -> None:
    """The job ends while the cable is out; what is cut off, waiting for the next step, ends when it is back."""
    lan = network(n_hosts)
    program = [sys.executable, *INFERENCE, "--model", str(model), "--steps", "4000"]
    environment = {**lan.environment(), "DLLAMA_PATIENCE_S": "2"}
    with subprocess.Popen(lan.mpirun(*program), env=environment, stderr=subprocess.PIPE, text=True) as job:
        assert job.stderr is not None
        assert any("Pred" in line for line in job.stderr)
        lan.hosts[1].cut()
        lines = [re.sub("for . s", "", line)[:70] for line in job.stderr if "Pred" not in line and line != "\n"]
        assert job.wait(DEADLINE_S) == 3
    assert lines == ["rank 0 on node1: no sign of life from rank 1 on node2 : it is frozen o"]
    lan.hosts[1].mend()
    await_the_end(lan)


@pytest.mark.parametrize("line", ["more", "end"])
@pytest.mark.parametrize("harm", ["cut", "frozen"])
def test_a_host_that_is_lost_while_all_are_idle_is_missed(
    network: Callable[[int], Lan], model: Path, harm: str, line: str
) -> None:
    """Whatever comes next, if it comes before that."""
    lan = network(2)
    program = [sys.executable, str(Path(__file__).parent / "programs" / "idle.py"), str(model)]
    environment = {**lan.environment(), "DLLAMA_PATIENCE_S": "2"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(lan.mpirun(*program), env=environment, text=True, **pipes) as job:
        assert job.stdin is not None
        assert job.stdout is not None
        assert job.stderr is not None
        assert job.stdout.readline() == "idle\n"
        if harm == "cut":
            lan.hosts[1].cut()
        else:
            freeze(lan.hosts[1], "idle.py")
        job.stdin.write(f"{line}\n")
        job.stdin.flush()
        lines = [re.sub("for . s", "", line)[:70] for line in job.stderr if line != "\n"]
        assert job.wait(DEADLINE_S) == 3
    assert lines == ["rank 0 on node1: no sign of life from rank 1 on node2 : it is frozen o"]
    if harm == "cut":
        lan.hosts[1].mend()
    await_the_end(lan)


def freeze(host: Host, word: str) -> None:
    """All its processes whose command has the word."""
    for process in host.processes():
        if word in Path(f"/proc/{process}/cmdline").read_text():
            os.kill(process, signal.SIGSTOP)


def await_the_end(lan: Lan) -> None:
    """Of all processes on all hosts."""
    deadline = time.monotonic() + DEADLINE_S
    while any(host.processes() for host in lan.hosts):
        assert time.monotonic() < deadline, {host.name: host.processes() for host in lan.hosts}
        time.sleep(0.05)
