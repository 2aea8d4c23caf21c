"""Mode `synth`: a `.m` or GGUF file of random weights in the shape of a known model."""

import argparse
import json
import time
from pathlib import Path

from dllama_py.blocks import FloatType
from dllama_py.cli.options import Parser, add_json_option, positive
from dllama_py.cli.progress import shown_progress
from dllama_py.errors import UsageError
from dllama_py.formats.gguf_writer import write_gguf
from dllama_py.formats.shapes import SHAPES, shape_named
from dllama_py.formats.synthetic import SyntheticCheckpoint
from dllama_py.progress import Progress
from dllama_py.settings import WEIGHT_TYPES

EPILOG = f"""examples:
  python -m dllama_py synth --shape qwen3_0.6b OUT.m
  python -m dllama_py synth --shape llama3_3_70b_instruct --weights q40 --layers 4 OUT.m
  python -m dllama_py synth --shape qwen3_0.6b --weights q4_k OUT.gguf      any type of GGUF, also for other programs

shapes: {", ".join(SHAPES)}"""


def add_options(parser: Parser) -> None:
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("out", type=Path, metavar="OUT.m|OUT.gguf", help="the file to write")
    parser.add_argument("--shape", required=True, metavar="NAME", help="the model whose sizes it takes")
    parser.add_argument(
        "--weights",
        choices=[kind.label for kind in FloatType],
        default="q40",
        metavar="TYPE",
        help=f"type of all matrices (default: q40; in a .m file {', '.join(WEIGHT_TYPES)}; in a GGUF file also "
        f"{', '.join(kind.label for kind in FloatType if kind.label not in WEIGHT_TYPES)})",
    )
    parser.add_argument("--layers", type=positive, metavar="N", help="only the first N layers")
    add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """Writes the file, with progress on standard error; its path, or facts as JSON, on standard output."""
    config = shape_named(arguments.shape, arguments.layers)
    out: Path = arguments.out
    if out.suffix not in (".m", ".gguf") or not out.parent.is_dir():
        raise UsageError(f"{out}: is not the name of a .m or .gguf file in a folder that exists")
    kind = FloatType.named(arguments.weights)
    started = time.perf_counter()
    with shown_progress() as progress:
        _write(SyntheticCheckpoint(config, kind, arguments.shape), kind, out, progress)
    seconds = time.perf_counter() - started
    facts = {"path": str(out), "bytes": out.stat().st_size, "seconds": round(seconds, 3)}
    print(json.dumps(facts) if arguments.json else out)
    return 0


def _write(checkpoint: SyntheticCheckpoint, kind: FloatType, out: Path, progress: Progress) -> None:
    if out.suffix == ".gguf":
        write_gguf(checkpoint, out, progress)
        return
    from dllama_py.conversion import convert_model  # needs numba, which --help does not

    convert_model(checkpoint, kind, out, progress)
