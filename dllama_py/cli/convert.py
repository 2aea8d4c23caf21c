"""Mode `convert`: a Hugging Face folder or a GGUF file into a `.m` file, its tokenizer into a `.t` file."""

import argparse
import sys
from pathlib import Path

from dllama_py.blocks import FloatType
from dllama_py.cli.options import Parser
from dllama_py.cli.progress import shown_progress
from dllama_py.cluster.registry import fetched_path, find_model
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.formats.complete_file import complete_or_gone
from dllama_py.formats.soundness import refuse_broken
from dllama_py.formats.tokenizer_file import tokenizer_file_bytes
from dllama_py.prompting import stored_tokens
from dllama_py.settings import WEIGHT_TYPES
from dllama_py.sizes import size

EPILOG = """examples:
  python -m dllama_py convert model ~/models/Qwen3-0.6B q40 qwen3_0.6b
  python -m dllama_py convert model SmolLM2-135M-Instruct.Q4_1.gguf q80 smollm2_135m --output models/"""

TOKENIZER_EPILOG = """examples:
  python -m dllama_py convert tokenizer ~/models/Qwen3-0.6B qwen3_0.6b
  python -m dllama_py convert tokenizer SmolLM2-135M-Instruct.Q4_1.gguf smollm2_135m --output models/"""


MODEL_NEXT = "chat with it: python -m dllama_py chat --model {out} --tokenizer {source}"
TOKENIZER_NEXT = "it is found beside the model of its name; elsewhere: chat --model MODEL --tokenizer {out}"


def add_options(parser: Parser) -> None:
    commands = parser.add_subparsers(required=True, metavar="WHAT", dest="what")
    model = commands.add_parser(
        "model",
        help="Hugging Face folder or GGUF file to a .m file",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    model.add_argument("source", type=Path, metavar="FOLDER_OR_GGUF", help="Hugging Face folder or GGUF file")
    model.add_argument("weights", choices=WEIGHT_TYPES, help="type of all matrices in the result")
    model.add_argument("name", metavar="NAME", help="the result is called dllama_model_NAME_TYPE.m")
    model.add_argument("--output", type=Path, default=Path(), metavar="FOLDER_OR_FILE", help="default: this folder")
    model.set_defaults(convert=_convert_model, next_step=MODEL_NEXT)
    tokenizer = commands.add_parser(
        "tokenizer",
        help="tokenizer of a Hugging Face folder or GGUF file to a .t file",
        epilog=TOKENIZER_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    tokenizer.add_argument("source", type=Path, metavar="FOLDER_OR_GGUF", help="where the tokenizer is")
    tokenizer.add_argument("name", metavar="NAME", help="the result is called dllama_tokenizer_NAME.t")
    tokenizer.add_argument("--output", type=Path, default=Path(), metavar="FOLDER_OR_FILE", help="default: this folder")
    tokenizer.set_defaults(convert=_convert_tokenizer, next_step=TOKENIZER_NEXT)


def run(arguments: argparse.Namespace) -> int:
    """Converts, with progress on standard error; the name of the file is the last line on standard output."""
    out: Path = arguments.convert(arguments)
    print(
        f"{size(out.stat().st_size)}; {arguments.next_step.format(out=out, source=arguments.source)}", file=sys.stderr
    )
    print(out)
    return 0


def _convert_model(arguments: argparse.Namespace) -> Path:
    checkpoint = open_checkpoint(find_model(arguments.source))
    refuse_broken(checkpoint)

    from dllama_py.conversion import convert_model, model_file_name  # needs numba; --help and a refusal do not

    target = FloatType.named(arguments.weights)
    out = _output_path(arguments.output, arguments.name, model_file_name(arguments.name, target))
    if out.exists() and out.samefile(checkpoint.path):
        raise UsageError(f"{out}: is the source itself; choose another NAME or --output")
    for note in checkpoint.notes:
        print(f"warning: {note}", file=sys.stderr)
    with shown_progress() as progress:
        convert_model(checkpoint, target, out, progress)
    return out


def _convert_tokenizer(arguments: argparse.Namespace) -> Path:
    source = fetched_path(arguments.source) or arguments.source
    out = _output_path(arguments.output, arguments.name, f"dllama_tokenizer_{arguments.name}.t")
    if out.exists() and out.samefile(source):
        raise UsageError(f"{out}: is the source itself; choose another NAME or --output")
    data = tokenizer_file_bytes(stored_tokens(source))
    with complete_or_gone(out, len(data)) as file:
        file.write(data)
    return out


def _output_path(output: Path, name: str, file_name: str) -> Path:
    """Where the result goes: into a folder that exists under the usual name, or to a file as it is named."""
    if not name or Path(name).name != name:
        raise UsageError(f"NAME {name!r} must be a plain name without folders; use --output for the place")
    out = output / file_name if output.is_dir() else output
    kind = Path(file_name).suffix
    if not out.parent.is_dir() or (out is output and out.suffix != kind):
        raise UsageError(f"--output {output}: is neither a folder that exists nor the name of a {kind} file in one")
    return out
