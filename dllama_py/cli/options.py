"""Options that several modes share, under distributed-llama's names where it has them."""

import argparse
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from dllama_py.cluster.registry import find_model, last_model
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import Checkpoint, open_checkpoint
from dllama_py.home import expanded
from dllama_py.settings import (
    ACTIVATIONS,
    AUTO,
    CACHE_TYPES,
    DEFAULT_CHUNK_ROWS,
    EXCHANGES,
    LOCAL_COPIES,
    PIPELINE,
    TENSOR,
    TOPOLOGIES,
    WEIGHT_TYPES,
    EngineSettings,
    PipelineSettings,
)
from dllama_py.transport.environment import launched_rank

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


MODEL_HELP = ".m file, GGUF file, Hugging Face folder, or the name of a fetched model"
PROGRAM = "python -m dllama_py"  # as help texts call it; it works under mpirun and in any environment


class Parser(argparse.ArgumentParser):
    """argparse, with a wrong command line as a UsageError of one line, help from the root alone, and `~` in paths."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.register("type", Path, lambda text: expanded(Path(text)))  # a shell expands no --model=~/x

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message} ({self.prog} --help shows the options)")

    def print_help(self, file: "SupportsWrite[str] | None" = None) -> None:
        if not launched_rank(os.environ):
            super().print_help(file)


def positive(text: str) -> int:
    """A whole number above 0, as a type for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above 0")
    return int(text)


def add_model_options(
    parser: Parser, weights: Sequence[str] = WEIGHT_TYPES, weights_help: str = "quantise a Hugging Face folder"
) -> None:
    """Which model, and how it is read. `weights`: what --weights may be."""
    group = parser.add_argument_group("model")
    group.add_argument("--model", type=Path, metavar="PATH", help=MODEL_HELP)
    group.add_argument(
        "--tokenizer",
        type=Path,
        metavar="PATH",
        help=".t or tokenizer.json, folder or GGUF; default: --model",
    )
    group.add_argument("--weights", choices=weights, help=f"{weights_help} (default: q40)")


def add_engine_options(parser: Parser, threads: Callable[[str], int | str] = positive) -> None:
    """How the ranks compute. `threads`: reads --nthreads."""
    group = parser.add_argument_group("engine")
    group.add_argument(
        "--nthreads", "--threads", dest="n_threads", type=threads, metavar="N", help="threads of each node"
    )
    group.add_argument("--max-seq-len", type=positive, metavar="N", help="context in tokens (default: 4096 at most)")
    group.add_argument(
        "--buffer-float-type", choices=EXCHANGES, default="f32", help="encoding of sums between nodes (default: f32)"
    )
    group.add_argument(
        "--kv-cache-type", choices=CACHE_TYPES, default="auto", help="auto: f32 for f32 weights, else f16"
    )
    group.add_argument(
        "--topology",
        choices=TOPOLOGIES,
        help="tensor: all nodes share every layer (default); pipeline: each node has some of the layers; auto: the "
        "nodes are measured, and what will be faster is taken",
    )
    group.add_argument(
        "--stages", type=positive, metavar="N", help="of a pipeline (default: one a node); nodes of a stage share it"
    )
    group.add_argument(
        "--split",
        default="auto",
        metavar="HOW",
        help="layers of each stage as 12,8,8, ratios as 6:4, or auto (default)",
    )
    group.add_argument("--plan", type=Path, metavar="F.json", help="the stages of a saved plan")
    group.add_argument("--save-plan", type=Path, metavar="F.json", help="write down the plan of a pipeline")
    group.add_argument("--plan-only", action="store_true", help="measure and plan a pipeline, and load nothing")
    group.add_argument(
        "--activations", choices=ACTIVATIONS, help="encoding of what stages send each other (default: f32)"
    )
    group.add_argument(
        "--local-copies",
        choices=LOCAL_COPIES,
        help="of a pipeline's file on other nodes: use what equals the root's (auto, default), refuse what differs "
        "(strict), or leave them alone (off)",
    )
    group.add_argument("--replicate-kv", action="store_true", help="allow more nodes than KV heads")
    group.add_argument(
        "--chunk", type=positive, default=DEFAULT_CHUNK_ROWS, metavar="N", help="prompt tokens computed at once"
    )
    group.add_argument("--verbose", action="store_true", help="the model's shape, slices, memory and threads too")


def add_sampling_options(parser: Parser, temperature: float, top_p: float) -> None:
    """How the next token is chosen."""
    group = parser.add_argument_group("sampling")
    group.add_argument("--temperature", type=float, default=temperature, help=f"0: greedy (default: {temperature:g})")
    group.add_argument(
        "--topp", type=float, default=top_p, metavar="P", help=f"nucleus; 0 or 1: off (default: {top_p:g})"
    )
    group.add_argument("--topk", type=int, default=0, metavar="K", help="keep the K likeliest; 0: off (default)")
    group.add_argument("--seed", type=int, help="default: drawn and printed")


def add_json_option(parser: Parser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object as the last line of standard output")


def model_path(arguments: argparse.Namespace) -> Path:
    """--model, a path or the name of a fetched model; else the model fetched last."""
    path: Path | None = find_model(arguments.model) if arguments.model else last_model()
    if path is None:
        raise UsageError("no --model given and none fetched yet; get one with: python launch.py smollm2_135m")
    return path


def open_model(arguments: argparse.Namespace) -> Checkpoint:
    """The checkpoint of a mode that runs a model; only the root calls this, other ranks need no file."""
    return open_checkpoint(model_path(arguments))


def engine_settings(arguments: argparse.Namespace) -> EngineSettings:
    return EngineSettings(
        weights=None if getattr(arguments, "shape", None) else arguments.weights,  # random ones are made in their type
        n_threads=arguments.n_threads,
        context=arguments.max_seq_len,
        exchange=arguments.buffer_float_type,
        cache_type=arguments.kv_cache_type,
        replicate_kv=arguments.replicate_kv,
        chunk_rows=arguments.chunk,
        pipeline=_pipeline_settings(arguments),
    )


def _pipeline_settings(arguments: argparse.Namespace) -> PipelineSettings | None:
    """None: the tensor topology. --stages says pipeline by itself, as does a plan."""
    topology = arguments.topology or (PIPELINE if arguments.stages or arguments.plan else TENSOR)
    if topology == AUTO:
        _refuse_beside_auto(arguments)
        return PipelineSettings(
            activations=arguments.activations or "f32",
            plan_only=arguments.plan_only,
            local_copies=arguments.local_copies or "auto",
            or_tensor=True,
        )
    if topology == PIPELINE:
        if arguments.plan and (arguments.stages or arguments.split != "auto"):
            raise UsageError("--plan says how many layers each stage has; leave --stages and --split out")
        return PipelineSettings(
            arguments.stages,
            arguments.split,
            arguments.activations or "f32",
            arguments.plan,
            arguments.save_plan,
            arguments.plan_only,
            arguments.local_copies or "auto",
        )
    for option in ("stages", "plan", "split", "activations", "save_plan", "plan_only", "local_copies"):
        if getattr(arguments, option) not in (None, False, "auto"):
            name = f"--{option.replace('_', '-')}"
            raise UsageError(f"{name} is for pipelines; add --topology pipeline or leave it out")
    return None


def _refuse_beside_auto(arguments: argparse.Namespace) -> None:
    for option in ("stages", "plan", "split", "save_plan"):
        if getattr(arguments, option) not in (None, "auto"):
            name = f"--{option.replace('_', '-')}"
            raise UsageError(f"{name} is for pipelines, --topology auto may choose none; take --topology pipeline")


def sampler_settings(arguments: argparse.Namespace) -> SamplerSettings:
    """The seed is drawn here, once, where none is given."""
    seed = secrets.randbits(32) if arguments.seed is None else arguments.seed
    return SamplerSettings(arguments.temperature, arguments.topk, arguments.topp, seed)


def parse_ids(text: str) -> list[int]:
    """'1,2,3' -> [1, 2, 3]."""
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise UsageError(f"--ids {text!r}: expected numbers with commas between them, as 1,2,3") from None
