# python -m pytest tests/cluster/test_rank_counts.py
"""The real command on a number of ranks that cannot share the model."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.checkpoints import tiny_folder


@pytest.mark.parametrize("n_ranks", [3, 5])
def test_one_line_before_anything_is_loaded(n_ranks: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    model = tiny_folder(tmp_path_factory, "tiny-llama")  # 4 KV heads
    mpirun = Path(sys.executable).with_name("mpirun")
    command = [mpirun, "-np", str(n_ranks), sys.executable, "-m", "dllama_py", "--model", model, "--ids", "1,2,3"]
    started = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=200)
    print(f"refused after {time.monotonic() - started:.1f} s")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"error: {n_ranks} ranks cannot share 4 KV heads; use 1, 2 or 4 ranks, up to 8 with --rep")
