"""Mode `logits`: raw logits at every position of given ids, for comparison with other programs."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import numpy as np

from dllama_py.cli import options
from dllama_py.cli.running import check_prompt, running_engine
from dllama_py.engine.sequence import CachedSequence
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.orders import Orders

EPILOG = """examples:
  python -m dllama_py logits --model model.gguf --ids 1,2,3 --out logits.npy
  mpirun -np 2 python -m dllama_py logits --model folder --weights f32 --ids 1,2,3 --out logits.npy"""


def add_options(parser: options.Parser) -> None:
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--ids", required=True, help="token ids with commas between them")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.npy", help="float32 [ids, vocabulary]")
    options.add_model_options(parser)
    options.add_engine_options(parser)


def run(arguments: argparse.Namespace) -> int:
    ids, out = options.parse_ids(arguments.ids), arguments.out
    files: list[BinaryIO] = []

    def check(checkpoint: Checkpoint, orders: Orders) -> None:
        check_prompt(ids, orders)
        with _writing(out):  # told before anything is computed
            files.append(open(out, "wb"))

    with running_engine(arguments, check) as engine:
        if engine is not None:
            sequence = CachedSequence(engine.runner, slot=0)
            sequence.start(ids)
            logits = np.concatenate([step.logits for step in sequence.feed(ids, want_all=True)])  # [T, V]
            with _writing(out), files[0] as file:
                np.save(file, logits)
    return 0


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"--out {path}: cannot be written ({error.strerror or error}); choose another file") from None
