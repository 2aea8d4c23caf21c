# python -m pytest tests/cli/test_memory_table.py
"""What a mode takes at most, on each rank, against what --verbose said before a weight was read."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkpoints import tiny_gguf
from tests.support.peak import MARK

PROCFS = Path("/proc/self/status")
pytestmark = pytest.mark.skipif(not PROCFS.exists(), reason="the system does not tell how much a process had at most")

FILES_BYTES = 150_000_000  # pages of libraries and of the model's file, which the system takes back: 105 MB measured
IDS = ",".join(map(str, range(300)))  # 300 rows of logits: 182 MB
SIZES = ["--max-seq-len", "320", "--nthreads", "1"]
PERPLEXITY = ["perplexity", "--tokenizer", "TOKENIZER", "--file", "TEXT"]
LOGITS = ["logits", "--ids", IDS, "--out", "OUT"]
BENCH = ["bench", "--prompt-tokens", "100", "--steps", "8"]


def pipeline(split: str, *options: str) -> list[str]:
    return ["--topology", "pipeline", "--split", split, *options]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What commands call by names: few layers, and the vocabulary of a large model."""
    folder = tmp_path_factory.mktemp("table")
    model, text = folder / "random.gguf", folder / "text"
    shape = ["--shape", "qwen3_0.6b", "--layers", "4", "--weights", "q40"]
    subprocess.run([sys.executable, "-m", "dllama_py", "synth", *shape, model], check=True, capture_output=True)
    text.write_text("Some words, and then some more. " * 10)
    tokenizer = tiny_gguf(folder / "tokenizer.gguf")
    return {"MODEL": str(model), "TOKENIZER": str(tokenizer), "TEXT": str(text), "OUT": str(folder / "logits.npy")}


@pytest.mark.parametrize(
    ("n_ranks", "mode"),
    [
        (2, [*PERPLEXITY, *pipeline("2,2")]),
        (3, [*PERPLEXITY, *pipeline("2,1,1")]),
        (4, [*PERPLEXITY, *pipeline("2,2", "--stages", "2")]),
        (2, [*LOGITS]),
        (2, [*LOGITS, *pipeline("2,2")]),
        (2, [*BENCH, "--sequences", "3", *pipeline("2,2")]),
    ],
    ids=lambda value: " ".join(each for each in value if each != IDS) if isinstance(value, list) else None,
)
def test_no_rank_takes_more_than_the_table_says(n_ranks: int, mode: list[str], files: dict[str, str]) -> None:
    mpirun = [str(Path(sys.executable).with_name("mpirun")), "-np", str(n_ranks)]
    options = [*mode, "--model", "MODEL", *SIZES, "--verbose"]
    command = [*mpirun, sys.executable, "-m", "tests.support.peak", *(files.get(each, each) for each in options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    counted = counted_bytes(done.stderr)
    peaks = {int(rank): 1024 * int(kb) for rank, kb in re.findall(rf"{MARK} (\d+) (\d+)", done.stderr)}
    assert sorted(counted) == sorted(peaks) == list(range(n_ranks)), done.stderr
    beyond = {rank: peak - counted[rank] for rank, peak in peaks.items() if peak > counted[rank] + FILES_BYTES}
    assert not beyond, f"{counted} were told, {peaks} taken"


def counted_bytes(told: str) -> dict[int, float]:
    """By rank, of the table that ends with the columns total and free, in MB."""
    rows = re.findall(r"^rank (\d+) on \S+ .* ([\d.]+) +[\d.]+$", told, re.MULTILINE)
    return {int(rank): 1e6 * float(total) for rank, total in rows}
