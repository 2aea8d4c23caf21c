"""Against llama.cpp: python -m tests.peers.llama_cpp [MODEL] [--threads 2] [--rounds 3] [--env DIR] [--json]

Without a model: random weights of `--weights` (any type of GGUF, such as q4_k) in the shape of `--shape`. A GGUF
file as it is, or the same weights as one, go to llama-cpp-python, built for this CPU in an environment of its own
(about 20 minutes the first time). First both must give the same logits; then they take turns: a prompt of 168 tokens,
64 tokens after it. llama.cpp has its weights in memory, repacked, and samples nothing; of each round the better figure
counts of those with and without flash attention, and with and without AMX where the CPU has it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from dllama_py.float_types import FloatType
from dllama_py.formats.checkpoint import Checkpoint, open_checkpoint
from dllama_py.formats.gguf_writer import write_gguf
from dllama_py.formats.shapes import shape_named
from dllama_py.formats.synthetic import SyntheticCheckpoint
from dllama_py.home import home_folder
from tests.peers.environment import llama_python

WORKER = Path(__file__).with_name("llama_worker.py")
FIGURES = ("decode_tok_s", "prefill_tok_s")
PROMPT_TOKENS, STEPS = 168, 64
IDS = ",".join(str(7 * i + 13) for i in range(24))
LEAST_CORRELATION = 0.99  # of any position's logits; both quantise activations, each in its own way

Figures = dict[str, float]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?")
    parser.add_argument("--shape", default="qwen3_0.6b", help="without a model: its sizes (default: qwen3_0.6b)")
    parser.add_argument("--weights", default="q40", help="without a model: type of all matrices (default: q40)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--env", type=Path, default=home_folder() / "peers", help="the environment, made where missing")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    python = llama_python(options.env)
    name = options.model.name if options.model else f"{options.shape} {options.weights}"
    with tempfile.TemporaryDirectory(dir=options.env) as scratch:
        gguf = Path(scratch) / "model.gguf"
        if options.model and options.model.suffix == ".gguf":
            gguf.symlink_to(options.model.resolve())
        else:
            write_gguf(checkpoint_of(options), gguf)
        options.model = options.model or gguf
        likeness = compare_logits(options, python, gguf)
        rounds = [(our_speed(options), their_speed(options, python, gguf)) for _ in range(options.rounds)]
    found = {"model": name, "threads": options.threads, **likeness, **summary(rounds)}
    print(json.dumps(found) if options.json else told(found))
    return 0 if likeness["least_correlation"] >= LEAST_CORRELATION else 1


def checkpoint_of(options: argparse.Namespace) -> Checkpoint:
    if options.model:
        return open_checkpoint(options.model)
    return SyntheticCheckpoint(shape_named(options.shape), FloatType.named(options.weights), options.shape)


def compare_logits(options: argparse.Namespace, python: Path, gguf: Path) -> dict[str, Any]:
    """Whether both compute the same, over a few ids."""
    ours, theirs = gguf.with_name("ours.npy"), gguf.with_name("theirs.npy")
    common = ["--model", options.model, "--nthreads", str(options.threads)]
    run([sys.executable, "-m", "dllama_py", "logits", *common, "--ids", IDS, "--out", ours])
    run([python, "-I", WORKER, gguf, str(options.threads), "logits", IDS, theirs])
    return likeness_of(np.load(ours), np.load(theirs))


def likeness_of(ours: np.ndarray, theirs: np.ndarray) -> dict[str, Any]:
    """Of two arrays of logits, float32 [T, V]."""
    correlations = [float(np.corrcoef(a, b)[0, 1]) for a, b in zip(ours, theirs, strict=True)]
    same = int((ours.argmax(1) == theirs.argmax(1)).sum())
    return {"positions": len(ours), "same_best_token": same, "least_correlation": min(correlations)}


def our_speed(options: argparse.Namespace) -> Figures:
    sizes = ["--prompt-tokens", str(PROMPT_TOKENS), "--steps", str(STEPS), "--nthreads", str(options.threads)]
    found = json.loads(run([sys.executable, "-m", "dllama_py", "bench", "--model", options.model, *sizes, "--json"]))
    return {name: found[name] for name in FIGURES}


def their_speed(options: argparse.Namespace, python: Path, gguf: Path) -> dict[str, Figures]:
    """Of every way that llama.cpp may be fast here."""
    wish = [python, "-I", WORKER, gguf, str(options.threads), "speed", str(PROMPT_TOKENS), str(STEPS)]
    ways: dict[str, Figures] = json.loads(run(wish))
    if has_amx():
        without = json.loads(run(wish, NO_AMX="1"))
        ways |= {f"{name} without AMX": figures for name, figures in without.items()}
    return ways


def has_amx() -> bool:
    facts = Path("/proc/cpuinfo")
    return facts.exists() and "amx_int8" in facts.read_text()


def run(command: Sequence[str | Path], **environment: str) -> str:
    """The last line of what it prints. Ends this program with what it says where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        sys.exit(f"{command[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout.splitlines()[-1] if done.stdout else ""


def summary(rounds: Sequence[tuple[Figures, dict[str, Figures]]]) -> dict[str, Any]:
    """Of each figure all rounds, llama.cpp's by the way that was its best of all, and the ratios."""
    found: dict[str, Any] = {}
    for name in FIGURES:
        ours = [figures[name] for figures, _ in rounds]
        ways = {way: [round_of[way][name] for _, round_of in rounds] for way in rounds[0][1]}
        way = max(ways, key=lambda each: max(ways[each]))
        best, middle = max(ours) / max(ways[way]), median(ours) / median(ways[way])
        found[name] = {"ours": ours, "llama_cpp": ways, "way": way, "best_ratio": best, "median_ratio": middle}
    return found


def told(found: dict[str, Any]) -> str:
    lines = [
        f"{found['model']}, {found['threads']} threads: the same best token at {found['same_best_token']} of "
        f"{found['positions']} positions, correlation of logits at least {found['least_correlation']:.5f}"
    ]
    for name in FIGURES:
        figures = found[name]
        lines.append(f"{name}: {rates(figures['ours'])}")
        lines += [f"    llama.cpp, {way}: {rates(values)}" for way, values in figures["llama_cpp"].items()]
        lines.append(
            f"    against {figures['way']}: best to best {figures['best_ratio']:.2f}, "
            f"median to median {figures['median_ratio']:.2f}"
        )
    return "\n".join(lines)


def rates(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


if __name__ == "__main__":
    sys.exit(main())
