# python -m pytest tests/cli/test_memory.py
"""What ranks need beside their slices and the cache: at most 150 MB, the root 300."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dllama_py.blocks import FloatType
from dllama_py.config import ModelConfig
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.formats.tensors import tensor_specs
from dllama_py.model.memory import rank_memories
from dllama_py.sharding.plan import make_plan

CONTEXT = 320  # positions, nearly all of which are taken
WORKER_BYTES, ROOT_BYTES = 150_000_000, 300_000_000
PYTHON = [sys.executable, "-m", "dllama_py"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Over 100 MB of weights, and compiled code for it: who compiles needs more."""
    out = tmp_path_factory.mktemp("memory") / "random.m"
    shape = ["--shape", "qwen3_1.7b", "--layers", "3", "--weights", "q40"]
    subprocess.run([*PYTHON, "synth", *shape, out], check=True, capture_output=True)
    private_bytes(out, 2)
    return out


@pytest.mark.parametrize("n_ranks", [1, 2])
def test_slices_cache_and_little_more(n_ranks: int, model: Path) -> None:
    private, slices = private_bytes(model, n_ranks), slices_and_cache(open_checkpoint(model).config, n_ranks)
    assert len(private) == n_ranks and sum(slices) > 100_000_000
    beside = [whole - own for whole, own in zip(private, slices, strict=True)]
    assert beside[0] <= ROOT_BYTES
    assert max(beside[1:], default=0) <= WORKER_BYTES


def private_bytes(model: Path, n_ranks: int) -> list[int]:
    """Of each rank after a prompt and an answer that nearly fill the context."""
    ids = ",".join(str(i) for i in range(300))
    sizes = ["--max-seq-len", str(CONTEXT), "--ids", ids, "--steps", "8", "--nthreads", "1"]
    answer = [*PYTHON, "inference", "--model", str(model), *sizes, "--json"]
    job = [str(Path(sys.executable).with_name("mpirun")), "-np", str(n_ranks)] if n_ranks > 1 else []
    done = subprocess.run([*job, *answer], check=True, capture_output=True, text=True)
    private: list[int] = json.loads(done.stdout.splitlines()[-1])["private_bytes"]
    return private


def slices_and_cache(config: ModelConfig, n_ranks: int) -> list[int]:
    """Bytes of each rank."""
    kinds = {spec.name: FloatType.Q40 if spec.is_matrix else FloatType.F32 for spec in tensor_specs(config)}
    needs = rank_memories(config, make_plan(config, n_ranks), kinds, CONTEXT, half_cache=True)
    return [rank.weights_bytes + rank.cache_bytes for rank in needs]
