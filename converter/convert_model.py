"""`python -m converter model`: a Hugging Face folder or a GGUF file into a `.m` file."""

import argparse
import sys
from pathlib import Path

from dllama_py.blocks import FloatType
from dllama_py.conversion import convert_model, model_file_name
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import open_checkpoint

EPILOG = """examples:
  python -m converter model ~/models/Qwen3-0.6B q40 qwen3_0.6b
  python -m converter model SmolLM2-135M-Instruct.Q4_1.gguf q80 smollm2_135m --output models/"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", type=Path, metavar="FOLDER_OR_GGUF", help="Hugging Face folder or GGUF file")
    parser.add_argument("weights", choices=["q40", "q80", "f16", "f32"], help="type of all matrices in the result")
    parser.add_argument("name", metavar="NAME", help="the result is called dllama_model_NAME_TYPE.m")
    parser.add_argument("--output", type=Path, default=Path(), metavar="FOLDER_OR_FILE", help="default: this folder")


def run(arguments: argparse.Namespace) -> None:
    """Convert, with progress on standard error; the name of the file is the last line on standard output."""
    target = FloatType.named(arguments.weights)
    out = output_path(arguments.output, arguments.name, target)
    checkpoint = open_checkpoint(arguments.source)
    if out.exists() and out.samefile(checkpoint.path):
        raise UsageError(f"{out}: is the source itself; choose another NAME or --output")
    for note in checkpoint.notes:
        print(f"warning: {note}", file=sys.stderr)
    convert_model(checkpoint, target, out, _show)
    print(out)


def output_path(output: Path, name: str, target: FloatType) -> Path:
    """Where the result goes: into a folder that exists under the usual name, or to a file as it is named."""
    if not name or Path(name).name != name:
        raise UsageError(f"NAME {name!r} must be a plain name without folders; use --output for the place")
    out = output / model_file_name(name, target) if output.is_dir() else output
    if not out.parent.is_dir() or (out is output and out.suffix != ".m"):
        raise UsageError(f"--output {output}: is neither a folder that exists nor the name of a .m file in one")
    return out


def _show(tensor: str, done_bytes: int, total_bytes: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done_bytes == total_bytes else ""
        print(f"\r\x1b[K{done_bytes / total_bytes:4.0%}  {tensor}", end=end, file=sys.stderr, flush=True)
