"""Mode `logits`: raw logits at every position of given ids, for comparison with other programs."""

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from dllama_py.boot import Engine
from dllama_py.cli import options
from dllama_py.cli.running import running_engine
from dllama_py.engine.generate import generate
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.step import StepResult
from dllama_py.engine.token_loop import Token
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.formats.complete_file import complete_or_gone, refuse_unwritable
from dllama_py.orders import Orders

EPILOG = """examples:
  python -m dllama_py logits --model model.gguf --ids 1,2,3 --out logits.npy
  mpirun -np 2 python -m dllama_py logits --model folder --weights f32 --ids 1,2,3 --out logits.npy"""


def add_options(parser: options.Parser) -> None:
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--ids", required=True, help="token ids with commas between them")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE.npy", help="float32 [ids, vocabulary]")
    parser.add_argument(
        "--singly",
        type=int,
        default=0,
        metavar="N",
        help="compute the last N ids one by one, as generated ones are (default: 0); the logits are the same",
    )
    parser.add_argument(
        "--answer",
        type=int,
        default=0,
        metavar="N",
        help="then generate N ids greedily from those before the last --singly, and tell them with --json",
    )
    parser.add_argument(
        "--hashes",
        type=Path,
        metavar="FILE.npz",
        help="also int64 hashes of what was computed: residual [ids, layers + 1], leaves [ids, layers, 2, leaves]; and "
        "nodes [layers, leaves], which rank computed them",
    )
    options.add_model_options(parser)
    options.add_engine_options(parser)
    options.add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    ids, out = options.parse_ids(arguments.ids), arguments.out
    if not 0 <= arguments.singly <= len(ids):
        raise UsageError(f"--singly {arguments.singly}: expected a number of ids from 0 to {len(ids)}")

    def check(checkpoint: Checkpoint, orders: Orders) -> None:
        orders.check_prompt(ids)
        refuse_unwritable(out, "--out")

    with running_engine(arguments, check) as engine:
        if engine is not None:
            if arguments.hashes is not None:
                engine.runner.keep_hashes()
            shape = (len(ids), engine.orders.config.vocab_size)
            _write_logits(out, shape, _steps(engine, ids, arguments.singly))
            if arguments.hashes is not None:
                _write_hashes(engine, arguments.hashes)
            answered = _answered(engine, ids[: len(ids) - arguments.singly], arguments.answer)
            if arguments.json:
                facts = {"nodes": len(engine.ranks), "threads": engine.threads.n_threads, "shape": shape}
                print(json.dumps(facts | {"ids": answered}), flush=True)
    return 0


def _write_logits(out: Path, shape: tuple[int, int], steps: Iterable[StepResult]) -> None:
    """As `np.save` does, but each step's rows as they come: all of them are larger than many a model."""
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    with complete_or_gone(out, 4 * shape[0] * shape[1], "--out") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for step in steps:
            file.write(np.ascontiguousarray(step.logits, "<f4").data)


def _steps(engine: Engine, ids: Sequence[int], n_single: int) -> Iterator[StepResult]:
    """All rows are wanted; the last n_single ids are steps of their own."""
    sequence = CachedSequence(engine.runner, slot=0)
    sequence.start(ids)
    yield from sequence.feed(ids[: len(ids) - n_single], want_all=True)
    for token in ids[len(ids) - n_single :]:
        yield from sequence.feed([token])


def _answered(engine: Engine, prompt: Sequence[int], n_tokens: int) -> list[int]:
    if not (prompt and n_tokens):
        return []
    sequence = CachedSequence(engine.runner, slot=0)
    events = generate(sequence, prompt, SamplerSettings(), n_tokens, engine.orders.config.vocab_size)
    return [event.id for event in events if isinstance(event, Token)]


def _write_hashes(engine: Engine, path: Path) -> None:
    residual, leaves = engine.runner.kept_hashes()
    nodes = engine.orders.grid(len(engine.ranks)).owners(leaves.shape[3])
    with complete_or_gone(path, residual.nbytes + leaves.nbytes + nodes.nbytes, "--hashes") as file:
        np.savez(file, residual=residual, leaves=leaves, nodes=nodes)
