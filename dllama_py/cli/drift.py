"""Mode `drift`: one answer on all node counts and threads, and how far from it are roundings and other programs."""

import argparse
import hashlib
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

from dllama_py.cli import options
from dllama_py.cli.drift_jobs import Answer, Jobs, Request, Setting, read_logits
from dllama_py.cli.drift_report import Compared, Report, show
from dllama_py.cli.placing import add_placing_options, counts, placements
from dllama_py.cli.progress import shown_progress
from dllama_py.cluster.series import refuse_under_launcher
from dllama_py.engine.comparison import Distance, Logits, distance
from dllama_py.engine.parting import Trail, first_parting
from dllama_py.errors import ClusterError, InputError
from dllama_py.settings import ACTIVATIONS, CACHE_TYPES, DEFAULT_CHUNK_ROWS, EXCHANGES, WEIGHT_TYPES

DEFAULT_STEPS = 16

EPILOG = f"""The first setting answers a prompt. Every setting answers it too and computes the logits of its ids; all
are compared with the first. Several values in --nodes, --threads, --chunk, --buffer-float-type and --activations: every
combination runs. Within one --buffer-float-type all must have the same bits, pipelines with --activations f32 among
them, and so must pipelines of as many stages with the same other --activations; if not, the exit code is
{ClusterError.exit_code}.

examples:
  python -m dllama_py drift --model model.m --nodes 1,2,4 --threads 1,2
  python -m dllama_py drift --nodes 1,2 --buffer-float-type f32,bf16,q80 --file text.txt --json
  python -m dllama_py drift --model model.gguf --nodes 1,2,3 --activations f32,bf16,int8,int8-row --file text.txt
  python -m dllama_py drift --nodes 1 --ids 1,2,3 --against transformers.npy --against other.gguf"""


def add_options(parser: options.Parser) -> None:
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--nodes", type=counts, default=[1, 2], metavar="N,...", help="default: 1,2")
    prompt = parser.add_mutually_exclusive_group()
    prompt.add_argument("--prompt", help="raw text (default: that of inference)")
    prompt.add_argument("--ids", help="token ids with commas between them, taken as they are")
    parser.add_argument(
        "--steps", type=options.positive, default=DEFAULT_STEPS, metavar="N", help=f"tokens (default: {DEFAULT_STEPS})"
    )
    parser.add_argument("--file", type=Path, metavar="PATH", help="a text on which each exchange's perplexity is told")
    parser.add_argument(
        "--against",
        action="append",
        default=[],
        type=Path,
        metavar="FILE.npy|MODEL",
        help="compare also with these logits, float32 [ids, vocabulary], or those of another model; can be repeated",
    )
    parser.add_argument("--against-weights", choices=WEIGHT_TYPES, help="quantise a --against folder (default: q40)")
    options.add_model_options(parser)
    _add_engine_options(parser)
    add_placing_options(parser)
    options.add_json_option(parser)


def _add_engine_options(parser: options.Parser) -> None:
    group = parser.add_argument_group("engine")
    group.add_argument("--nthreads", "--threads", dest="threads", type=counts, metavar="N,...", help="of each node")
    group.add_argument("--buffer-float-type", type=_exchanges, default=["f32"], metavar="f32,bf16,q80")
    group.add_argument(
        "--activations", type=_activations, metavar="f32,int8,...", help="pipelines, whose stages send each other this"
    )
    group.add_argument(
        "--chunk", type=counts, default=[DEFAULT_CHUNK_ROWS], metavar="N,...", help="prompt tokens computed at once"
    )
    group.add_argument("--max-seq-len", type=options.positive, metavar="N", help="context in tokens")
    group.add_argument("--kv-cache-type", choices=CACHE_TYPES, default="auto")
    group.add_argument("--replicate-kv", action="store_true", help="allow more nodes than KV heads")


def _exchanges(text: str) -> list[str]:
    return _names(text, EXCHANGES)


def _activations(text: str) -> list[str]:
    return _names(text, ACTIVATIONS)


def _names(text: str, known: Sequence[str]) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in known]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
    return names


def run(arguments: argparse.Namespace) -> int:
    refuse_under_launcher("drift")
    places = dict(zip(arguments.nodes, placements(arguments, arguments.nodes), strict=True))
    settings = _settings(arguments)
    n_texts = len(_firsts(settings)) if arguments.file else 0
    n_jobs = 1 + len(settings) + len(arguments.against) + n_texts
    with tempfile.TemporaryDirectory(prefix="drift-") as folder, shown_progress() as tell:
        jobs = Jobs(arguments, places, Path(folder), n_jobs, tell)
        report = _measured(arguments, jobs, settings)
    show(report, to_stderr=arguments.json)
    if arguments.json:
        print(json.dumps(report.facts()), flush=True)
    return 0 if report.odd is None else ClusterError.exit_code


def _settings(arguments: argparse.Namespace) -> list[Setting]:
    """All combinations, each once."""
    a, threads = arguments, arguments.threads or [None]
    combined = product(a.activations or [None], a.buffer_float_type, a.nodes, threads, a.chunk)
    return list(
        dict.fromkeys(
            Setting(nodes, n, exchange, chunk, activations if nodes > 1 else None)
            for activations, exchange, nodes, n, chunk in combined
        )
    )


@dataclass(frozen=True, slots=True)
class _Base:
    """What all else is compared with; `trails`: of the first setting of each family."""

    setting: Setting
    request: Request
    logits: Logits
    trails: dict[str, Trail]

    def compared(self, setting: Setting, answer: Answer) -> Compared:
        found = replace(self.away(answer.logits), first_differing_token=_first_other(self.request.ids, answer.ids))
        parting = first_parting(self.trails.setdefault(setting.family, answer.trail), answer.trail)
        sha256 = hashlib.sha256(answer.logits.tobytes()).hexdigest()
        return Compared(setting, answer.threads, answer.ids, sha256, found, parting)

    def away(self, logits: Logits) -> Distance:
        """float32 [T, V] of the same ids, or [prompt ids, V] of the prompt alone."""
        return distance(self.logits[: len(logits)], logits, len(self.request.prompt_ids) - 1)


def _measured(arguments: argparse.Namespace, jobs: Jobs, settings: list[Setting]) -> Report:
    first = settings[0]
    request = jobs.request(first, _prompt(arguments))
    answer = jobs.answer(first, request)
    base = _Base(first, request, answer.logits, {})
    compared = [base.compared(first, answer)]
    compared += [base.compared(setting, jobs.answer(setting, request)) for setting in settings[1:]]
    against = {str(path): base.away(_elsewhere(path, arguments, jobs, base)) for path in arguments.against}
    perplexity = {s.family: jobs.perplexity(s, arguments.file) for s in _firsts(settings) if arguments.file}
    return Report(request, compared, against, perplexity)


def _firsts(settings: list[Setting]) -> list[Setting]:
    """Of each family."""
    return list({setting.family: setting for setting in reversed(settings)}.values())[::-1]


def _prompt(arguments: argparse.Namespace) -> list[str]:
    if arguments.ids is not None:
        return ["--ids", arguments.ids]
    return [] if arguments.prompt is None else ["--prompt", arguments.prompt]


def _first_other(ids: list[int], others: list[int]) -> int | None:
    """Number of the first token that differs, also where one answer goes on and the other does not."""
    if ids == others:
        return None
    same = [a == b for a, b in zip(ids, others, strict=False)]
    return same.index(False) if False in same else len(same)


def _elsewhere(path: Path, arguments: argparse.Namespace, jobs: Jobs, base: _Base) -> Logits:
    """Logits of the same ids from a file or another model. InputError where they cannot be compared."""
    if path.suffix == ".npy":
        logits = read_logits(path)
    else:
        weights = ["--weights", arguments.against_weights] if arguments.against_weights else []
        logits = jobs.answer(base.setting, base.request, ["--model", str(path), *weights]).logits
    n_rows, n_vocab = base.logits.shape
    n_prompt = len(base.request.prompt_ids)
    if len(logits) not in (n_prompt, n_rows) or logits.shape[1] != n_vocab:
        raise InputError(
            f"{path} has logits [{len(logits)}, {logits.shape[1]}]; expected [{n_rows}, {n_vocab}] for the prompt and "
            f"what follows, or [{n_prompt}, {n_vocab}] for the prompt alone"
        )
    return logits
