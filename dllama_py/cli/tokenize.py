"""Mode `tokenize`: the token ids of a raw text, special tokens recognised, with the piece that each stands for."""

import argparse
import json
from pathlib import Path

from dllama_py.cli.options import Parser, add_json_option, model_path
from dllama_py.cli.tables import table
from dllama_py.errors import InputError, UsageError
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.prompting import TOKENIZER_SOURCES, open_text
from dllama_py.text.tokenizer import Tokenizer

MOST_BYTES = 256 << 20  # of a text; it is in memory several times

EPILOG = """examples:
  dllama tokenize --prompt "Hello, world"
  dllama tokenize --tokenizer models/Qwen3-0.6B/tokenizer.json --file text.txt --json"""


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
    return text.tokenizer


def read_text(path: Path) -> str:
    """A whole text file; InputError if it is none, or has no end."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise InputError(f"{path}: has more than {MOST_BYTES >> 20} MiB; give a part of it")
        return data.decode()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; give a text file") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is no UTF-8; give a text file in UTF-8") from None
