"""Mode `inference`: one prompt, answered once, with the time and traffic of every step."""

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from dllama_py.boot import Engine
from dllama_py.cli import options
from dllama_py.cli.record import Record, result, step_line, summary
from dllama_py.cli.running import announce, running_engine, say, tell_notes
from dllama_py.cli.speculating import (
    add_speculation_options,
    speculating_settings,
    speculation_figures,
    speculation_of,
    speculation_summary,
)
from dllama_py.cli.stages_record import HopWatch, stages_summary
from dllama_py.completion import FinishReason, Request, complete
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.orders import Orders
from dllama_py.prompting import BUILT_IN_PROMPT, Text, check_vocabulary, end_ids, need_text, open_text

DEFAULT_STEPS = 256

EPILOG = """examples:
  mpirun -np 4 python -m dllama_py
  mpirun -np 2 python -m dllama_py inference --model model.gguf --prompt "Once upon a time" --steps 64"""


def add_options(parser: options.Parser) -> None:
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    prompt = parser.add_mutually_exclusive_group()
    prompt.add_argument("--prompt", help=f"raw text, special tokens recognised (default: asks {BUILT_IN_PROMPT!r})")
    prompt.add_argument("--ids", help="token ids with commas between them, taken as they are")
    parser.add_argument("--steps", type=int, default=DEFAULT_STEPS, help=f"tokens at most (default: {DEFAULT_STEPS})")
    options.add_model_options(parser)
    options.add_engine_options(parser)
    options.add_sampling_options(parser, temperature=0.0, top_p=1.0)
    add_speculation_options(parser)
    options.add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.steps < 1:
        raise UsageError(f"--steps {arguments.steps}: expected the number of tokens to generate, at least 1")
    sampling = options.sampler_settings(arguments)
    ids = options.parse_ids(arguments.ids) if arguments.ids is not None else None
    prepared: list[_Prepared] = []

    def check(checkpoint: Checkpoint, orders: Orders) -> None:
        prepared.append(_prepare(arguments, ids, checkpoint, orders))

    with running_engine(arguments, check, speculating_settings(arguments)) as engine:
        if engine is not None:
            _answer(engine, prepared[0], sampling, arguments)
    return 0


@dataclass(frozen=True, slots=True)
class _Prepared:
    prompt: Sequence[int]
    end_ids: frozenset[int]
    text: Text | None
    drops_first_space: bool


def _prepare(arguments: argparse.Namespace, ids: list[int] | None, checkpoint: Checkpoint, orders: Orders) -> _Prepared:
    """The prompt's ids, before anything is loaded."""
    text = open_text(checkpoint, arguments.tokenizer)
    if text is not None:
        check_vocabulary(text, checkpoint)
    as_chat = False
    if ids is None:
        known = need_text(text, "a text prompt", ", or token ids with --ids")
        as_chat = arguments.prompt is None and known.template.exists
        ids = known.built_in_ids() if arguments.prompt is None else known.tokenizer.encode(arguments.prompt)
    orders.check_prompt(ids)
    tell_notes(text)
    drops = text is not None and (text.tokenizer.drops_first_space if as_chat else text.drops_space_after(ids))
    return _Prepared(ids, end_ids(checkpoint, text), text, drops)


def _answer(engine: Engine, prepared: _Prepared, sampling: SamplerSettings, arguments: argparse.Namespace) -> None:
    text = prepared.text
    announce(engine, sampling, say, arguments.verbose)
    request = Request(
        prepared.prompt,
        sampling,
        arguments.steps,
        prepared.end_ids,
        text.tokenizer.vocab_size if text else engine.orders.config.vocab_size,
    )
    piece = text.tokenizer.piece if text else _no_text
    out = sys.stderr if arguments.json else sys.stdout
    watch, record = HopWatch(engine), Record()
    sequence = CachedSequence(engine.runner, slot=0)
    speculation = speculation_of(arguments, engine, sampling, request.n_vocab)
    for event in complete(
        sequence, request, piece, drop_first_space=prepared.drops_first_space, speculation=speculation
    ):
        record.add(event)
        line = step_line(event, spells_ids=text is None, is_first=len(record.ids) == 1)
        if line:
            print(line, file=out, flush=True)
    _explain_end(engine, record, arguments.steps)
    if arguments.json:
        told = result(engine, prepared.prompt, record, watch) | speculation_figures(arguments, speculation, record)
        print(json.dumps(told), flush=True)
    else:
        answer = record.text if text else ",".join(map(str, record.ids))
        ends = f"{speculation_summary(speculation, record)}{stages_summary(engine, record, watch)}"
        print(f"\n{answer}\n\n{summary(record)}{ends}", flush=True)


def _explain_end(engine: Engine, record: Record, n_wanted: int) -> None:
    """Ends that a user would not expect."""
    if record.finish is FinishReason.LENGTH and len(record.ids) < n_wanted:
        say(f"the context of {engine.orders.context} tokens is full; --max-seq-len sets it")
    elif record.finish is FinishReason.STOP and len(record.ids) == 1:
        say("the model ended at once: --prompt is raw text to go on with; the mode that answers questions is chat")


def _no_text(token: int) -> bytes:
    return b""
