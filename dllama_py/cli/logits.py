"""Mode `logits`: raw logits at every position of given ids, for comparison with other programs."""

import argparse
from functools import partial
from pathlib import Path

import numpy as np

from dllama_py.boot import open_engine
from dllama_py.cli import options
from dllama_py.cli.inference import check_prompt, say
from dllama_py.engine.sequence import CachedSequence
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.orders import Orders
from dllama_py.transport.failure import abort_on_exception
from dllama_py.transport.world import open_world

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

    def check(checkpoint: Checkpoint, orders: Orders) -> None:
        if not out.parent.is_dir():
            raise UsageError(f"--out {out}: there is no folder {out.parent}; make it first")
        check_prompt(ids, orders)

    comm = open_world()
    settings = options.engine_settings(arguments)
    opened = open_engine(settings, comm, partial(options.open_model, arguments), say, check)
    with abort_on_exception(comm), opened as engine:
        if engine is not None:
            sequence = CachedSequence(engine.runner, slot=0)
            sequence.start(ids)
            logits = np.concatenate([step.logits for step in sequence.feed(ids, want_all=True)])  # [T, V]
            with open(out, "wb") as file:
                np.save(file, logits)
    return 0
