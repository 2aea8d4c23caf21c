# python -m pytest tests/lan/test_pipeline.py
"""A pipeline on several hosts: one answer, and what the stages send goes over their links."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.checkpoints import tiny_gguf
from tests.lan.hosts import Lan

SIZES = {"hidden_size": 512, "intermediate_size": 512, "num_hidden_layers": 5, "max_position_embeddings": 2048}
ROW_BYTES = 4 * 512
FEW, MANY = 8, 120  # tokens; what jobs send besides differs by some 10 kB


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("lan") / "model.gguf"
    tiny_gguf(path, "tiny-llama", **SIZES)
    return path


def answer(command: list[str], environment: dict[str, str] | None = None) -> dict[str, Any]:
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    facts: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return facts


@pytest.mark.parametrize("split", ["2,3", "2,2,1"])
def test_one_answer_and_its_rows_on_the_links(network: Callable[[int], Lan], model: Path, split: str) -> None:
    n_hosts = len(split.split(","))
    lan = network(n_hosts)
    program = [sys.executable, "-m", "dllama_py", "inference", "--nthreads", "1", "--ids", "170,171,172,173", "--json"]
    program += ["--model", str(model), "--steps"]
    alone = answer([*program, str(MANY)])
    crossed = []
    for n_tokens in (FEW, MANY):
        before = [host.sent_bytes for host in lan.hosts]
        stages = answer(
            lan.mpirun(*program, str(n_tokens), "--topology", "pipeline", "--split", split), lan.environment()
        )
        crossed.append([host.sent_bytes - was for host, was in zip(lan.hosts, before, strict=True)])
    assert len(alone["ids"]) == MANY
    assert stages["ids_sha256"] == alone["ids_sha256"]
    assert (stages["topology"], stages["nodes"]) == ("pipeline", n_hosts)
    *chain, last = [(many - few) / (MANY - FEW) for few, many in zip(*crossed, strict=True)]
    assert all(ROW_BYTES < each < 1.6 * ROW_BYTES for each in chain)
    assert last < ROW_BYTES  # candidates go back to the root
