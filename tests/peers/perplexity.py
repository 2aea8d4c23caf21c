"""How well a GGUF model foretells a text here and in llama.cpp: python -m tests.peers.perplexity MODEL.gguf TEXT

The same ids in the same windows, the first of each unscored; llama.cpp's in an environment of its own (llama_cpp.py).
"""

import argparse
import json
import math
import sys
import tempfile
from pathlib import Path

import numpy as np

from dllama_py.home import home_folder
from tests.peers.environment import llama_python
from tests.peers.llama_cpp import WORKER, run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("text", type=Path)
    parser.add_argument("--window", type=int, default=256, help="ids (default: 256)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--env", type=Path, default=home_folder() / "peers", help="the environment, made where missing")
    options = parser.parse_args()
    python, threads = llama_python(options.env), str(options.threads)
    ours = [sys.executable, "-m", "dllama_py"]
    about = ["--model", options.model, "--file", options.text, "--json"]
    ids = json.loads(run([*ours, "tokenize", *about]))["ids"]
    found = json.loads(run([*ours, "perplexity", *about, "--max-seq-len", str(options.window), "--nthreads", threads]))
    theirs = []
    with tempfile.TemporaryDirectory(dir=options.env) as scratch:
        out = Path(scratch) / "logits.npy"
        for start in range(0, len(ids), options.window):
            window = ids[start : start + options.window]
            run([python, "-I", WORKER, options.model, threads, "logits", ",".join(map(str, window)), out])
            theirs += nats(np.load(out), window)
    print(f"{options.model.name}: {found['tokens']} tokens scored here, {len(theirs)} in llama.cpp")
    print(f"perplexity {found['perplexity']:.4f} here, {math.exp(sum(theirs) / len(theirs)):.4f} in llama.cpp")


def nats(logits: np.ndarray, ids: list[int]) -> list[float]:
    """Of every id but the first, by the logits [T, V] of the one before it."""
    found = []
    for row, id in zip(logits[:-1].astype(np.float64), ids[1:], strict=True):
        top = row.max()
        found.append(float(top + math.log(np.exp(row - top).sum()) - row[id]))
    return found


if __name__ == "__main__":
    main()
