"""Mode `perplexity`: how well the model foretells a text; a measure of what quantisation and settings cost."""

import argparse
import json
from pathlib import Path

from dllama_py.boot import Engine
from dllama_py.cli import options
from dllama_py.cli.progress import shown_progress
from dllama_py.cli.running import running_engine
from dllama_py.cli.text_file import read_text
from dllama_py.engine.perplexity import Surprise, measure
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.orders import Orders
from dllama_py.progress import Work
from dllama_py.prompting import check_vocabulary, need_text, open_text

EPILOG = """The text is cut into windows of --max-seq-len tokens; the first token of each is not scored.

examples:
  python -m dllama_py perplexity --model model.gguf --file text.txt
  mpirun -np 2 python -m dllama_py perplexity --model folder --weights q80 --file text.txt --max-seq-len 512 --json"""


def add_options(parser: options.Parser) -> None:
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--file", type=Path, required=True, metavar="PATH", help="a text in UTF-8")
    options.add_model_options(parser)
    options.add_engine_options(parser)
    options.add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    ids: list[int] = []

    def check(checkpoint: Checkpoint, orders: Orders) -> None:
        text = need_text(open_text(checkpoint, arguments.tokenizer), "a text")
        check_vocabulary(text, checkpoint)
        ids.extend(text.tokenizer.encode(read_text(arguments.file)))
        if len(ids) < 2:
            raise UsageError(
                f"{arguments.file} has {len(ids)} tokens; expected at least 2, since the first has no score"
            )
        if orders.context < 2:
            raise UsageError("--max-seq-len 1 leaves nothing to score; expected at least 2")

    with running_engine(arguments, check) as engine:
        if engine is not None:
            _report(_measure(engine, ids), arguments.json)
    return 0


def _measure(engine: Engine, ids: list[int]) -> Surprise:
    work = Work("reading the text", len(ids), "tokens")
    with shown_progress() as tell:
        return measure(engine.runner, ids, engine.orders.context, lambda done: tell(work, done, ""))


def _report(surprise: Surprise, as_json: bool) -> None:
    facts = {
        "perplexity": surprise.perplexity,
        "tokens": surprise.n_tokens,
        "nats_per_token": surprise.nats_per_token,
    }
    if as_json:
        print(json.dumps(facts), flush=True)
    else:
        print(f"perplexity {surprise.perplexity:.4f} over {surprise.n_tokens} tokens", flush=True)
