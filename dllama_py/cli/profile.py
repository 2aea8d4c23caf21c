"""Mode `profile`: where the time of a token goes, on every node, thread and link, and what would be faster."""

import argparse
import json
from functools import partial
from pathlib import Path
from typing import Any

from dllama_py.boot import Engine, Watch, open_engine
from dllama_py.cli import options
from dllama_py.cli.measuring import ANY_ID, check_room, some_prompt, warmed_up
from dllama_py.cli.placing import add_placing_options, counts
from dllama_py.cli.profile_series import profile_nodes
from dllama_py.cli.profile_tables import show
from dllama_py.cli.progress import shown_progress
from dllama_py.cli.running import plan_table, say, show_stages
from dllama_py.cost_model import Network
from dllama_py.engine.generate import PromptChunk, generate
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.errors import UsageError
from dllama_py.profiling.clock import read_clocks
from dllama_py.profiling.picture import picture
from dllama_py.profiling.report import Report, Session, as_json, bars, report
from dllama_py.profiling.timeline import RankTimeline, Span, gather
from dllama_py.profiling.trace import trace
from dllama_py.stamps import Recording
from dllama_py.transport.comm import Comm
from dllama_py.transport.failure import agreed
from dllama_py.transport.link import measure_network
from dllama_py.transport.world import joined_world

EPILOG = """examples:
  python -m dllama_py profile --model model.m
  mpirun -f hostfile -np 4 python -m dllama_py profile --model model.m --trace trace.json --svg token.svg
  python -m dllama_py profile --model model.m --nodes 1,2,4 --hostfile hostfile --svg nodes.svg
The trace is opened at ui.perfetto.dev; docs/profiling.md says how to read it all."""


def add_options(parser: options.Parser) -> None:
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--prompt-tokens", type=options.positive, default=64, metavar="P", help="default: 64")
    parser.add_argument("--steps", type=options.positive, default=32, metavar="N", help="tokens (default: 32)")
    parser.add_argument("--trace", type=Path, metavar="OUT.json", help="every kernel and all-reduce, for Perfetto")
    parser.add_argument("--svg", type=Path, metavar="OUT.svg", help="a picture of one token")
    parser.add_argument(
        "--beside", type=Path, nargs="+", default=[], metavar="FILE", help="profiles (--json) to draw beside this one"
    )
    parser.add_argument(
        "--nodes", type=counts, metavar="1,2,4", help="profile each number of nodes, one after the other"
    )
    options.add_model_options(parser)
    options.add_engine_options(parser)
    add_placing_options(parser)
    options.add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    if arguments.steps < 3:
        raise UsageError(f"--steps {arguments.steps}: expected at least 3, to see what lies between two tokens")
    if options.engine_settings(arguments).pipeline is not None:
        raise UsageError(
            "profile knows the tensor topology; what the hops of a pipeline take, inference and bench tell "
            "(leave --topology and --stages out)"
        )
    if arguments.nodes:
        _check_outputs(arguments)
        return profile_nodes(arguments)
    with joined_world() as comm:
        beside: list[dict[str, Any]] = []
        with agreed(comm):
            if comm.rank == 0:
                _check_outputs(arguments)
                beside += map(_read_profile, arguments.beside)
        _profile(comm, arguments, beside)
    return 0


def _check_outputs(arguments: argparse.Namespace) -> None:
    """Told before anything is measured."""
    for option, path in (("--trace", arguments.trace), ("--svg", arguments.svg)):
        try:
            if path is not None:
                path.open("ab").close()
        except OSError as error:
            raise UsageError(f"{option} {path}: {error.strerror}; expected a file that can be written") from error


def _read_profile(path: Path) -> dict[str, Any]:
    """What `profile --json` printed: the last line of the file."""
    try:
        found = json.loads(path.read_text().rstrip().rpartition("\n")[2])
        if not {"nodes", "exchange", "per_token", "token_ms"} <= found.keys():
            raise ValueError
    except (OSError, ValueError, AttributeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no profile"
        raise UsageError(f"--beside {path}: {reason}; expected what `profile --json` prints") from error
    profile: dict[str, Any] = found
    return profile


def _profile(comm: Comm, arguments: argparse.Namespace, beside: list[dict[str, Any]]) -> None:
    """All ranks together; the root tells."""
    recording, spans, orders = Recording(), [], None
    network = _network(comm)
    before = read_clocks(comm)
    settings, open_model = options.engine_settings(arguments), partial(options.open_model, arguments)
    with shown_progress() as on_progress:
        watch = Watch(lambda plan: say(plan_table(plan)), on_progress, recording, partial(show_stages, arguments))
        with open_engine(settings, comm, open_model, say, partial(check_room, arguments), watch) as engine:
            if engine is not None:
                spans, orders = _measure(engine, recording, arguments.prompt_tokens, arguments.steps), engine.orders
    after = read_clocks(comm)
    n_threads = recording.runs[0].stamps.shape[0]
    own = RankTimeline(comm.hosts[comm.rank], n_threads, recording.programs, recording.runs)
    ranks = gather(comm, own, before, after)
    if orders is not None:
        one_node_s = next((each["token_ms"] / 1000 for each in beside if each["nodes"] == 1), None)
        session = Session(orders.config, orders.exchange, ranks, spans, network, after, one_node_s)
        _tell(report(session), arguments, beside)


def _network(comm: Comm) -> Network | None:
    """None on one node; of a number of nodes that cannot share a model, which the engine will refuse."""
    return None if comm.size & (comm.size - 1) or comm.size == 1 else measure_network(comm)


def _measure(engine: Engine, recording: Recording, n_prompt: int, n_steps: int) -> list[Span]:
    """Prefill and decode after a warm-up; end tokens are ignored."""
    prompt = some_prompt(engine, n_prompt)
    sequence = warmed_up(engine, prompt, n_steps)
    engine.runner.read_bytes_per_s()
    return _spans(sequence, recording, prompt, n_steps)


def _spans(sequence: CachedSequence, recording: Recording, prompt: list[int], n_steps: int) -> list[Span]:
    """The steps of one generation, each with the runs that were recorded meanwhile."""
    spans: list[Span] = []
    first = len(recording.runs)
    for event in generate(sequence, prompt, SamplerSettings(), n_steps, ANY_ID):
        end = len(recording.runs)
        if end > first:
            phase = "prefill" if isinstance(event, PromptChunk) else "decode"
            spans.append(Span(phase, event.cost.n_rows, first, end))
        first = end
    return spans


def _tell(found: Report, arguments: argparse.Namespace, beside: list[dict[str, Any]]) -> None:
    session = found.session
    if arguments.trace:
        arguments.trace.write_text(json.dumps(trace(session.ranks, session.spans, found.steps)))
    if arguments.svg:
        span, step = session.spans[found.typical], found.steps[found.typical]
        arguments.svg.write_text(picture(session.ranks, span, step, bars(found, beside)))
    if arguments.json:
        print(json.dumps(as_json(found)), flush=True)
    else:
        show(found)
