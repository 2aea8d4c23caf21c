"""Mode `tokenize`: the token ids of a raw text, special tokens recognised, with the piece that each stands for."""

import argparse
import json
import sys
from pathlib import Path

from dllama_py.cli.options import Parser, add_json_option, model_path
from dllama_py.cli.tables import table
from dllama_py.cli.text_file import read_text
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.prompting import TOKENIZER_SOURCES, open_text
from dllama_py.text.tokenizer import Tokenizer

EPILOG = """examples:
  python -m dllama_py tokenize --prompt "Hello, world"
  python -m dllama_py tokenize --tokenizer models/Qwen3-0.6B/tokenizer.json --file text.txt --json"""


def add_options(parser: Parser) -> None:
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--model", type=Path, metavar="PATH", help="Hugging Face folder or GGUF file")
    parser.add_argument("--tokenizer", type=Path, metavar="PATH", help=f"{TOKENIZER_SOURCES}; default: --model")
    text = parser.add_mutually_exclusive_group(required=True)
    text.add_argument("--prompt", metavar="TEXT", help="the text")
    text.add_argument("--file", type=Path, metavar="PATH", help="a file with the text, in UTF-8")
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    text: str = read_text(arguments.file) if arguments.prompt is None else arguments.prompt
    tokenizer = _tokenizer(arguments)
    ids = tokenizer.encode(text)
    pieces = [tokenizer.token_text(id) for id in ids]
    if arguments.json:
        print(json.dumps({"ids": ids, "pieces": pieces}))
    else:
        print(table(("piece", "id"), [(repr(piece), id) for id, piece in zip(ids, pieces, strict=True)]))
    return 0


def _tokenizer(arguments: argparse.Namespace) -> Tokenizer:
    checkpoint = None if arguments.tokenizer else open_checkpoint(model_path(arguments))
    text = open_text(checkpoint, arguments.tokenizer)
    if text is None:
        raise UsageError(f"{model_path(arguments)} holds no tokenizer; give --tokenizer ({TOKENIZER_SOURCES})")
    for line in text.tokenizer.special_ids.notes:
        print(line, file=sys.stderr)
    return text.tokenizer
