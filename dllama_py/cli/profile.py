"""Mode `profile`: where the time of a token goes, on every node, thread, link and stage, and what would be faster."""

import argparse
import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from dllama_py.boot import Engine, open_engine
from dllama_py.cli import options
from dllama_py.cli.measuring import ANY_ID, check_room, some_prompt, warmed_up
from dllama_py.cli.placing import add_placing_options, counts
from dllama_py.cli.profile_series import profile_nodes
from dllama_py.cli.profile_tables import show
from dllama_py.cli.progress import shown_progress
from dllama_py.cli.running import say, watch_for
from dllama_py.cluster.busy import busy_cores, busy_line, cpu_times
from dllama_py.cost_model import Link, Network
from dllama_py.engine.generate import generate
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.token_loop import PromptChunk
from dllama_py.errors import UsageError
from dllama_py.planning.measured_splits import other_split, places_of
from dllama_py.profiling.clock import read_clocks
from dllama_py.profiling.picture import Token, picture
from dllama_py.profiling.pipeline_report import PipelineFacts, PipelineReport, pipeline_report
from dllama_py.profiling.report import Session
from dllama_py.profiling.tensor_report import TensorReport, tensor_report
from dllama_py.profiling.timeline import DECODE, PREFILL, Span, cut_steps, gather
from dllama_py.profiling.trace import trace
from dllama_py.stamps import Recording
from dllama_py.transport.comm import Comm
from dllama_py.transport.failure import agreed
from dllama_py.transport.link import measure_network, measure_pairs, slowest
from dllama_py.transport.world import joined_world

EPILOG = """examples:
  python -m dllama_py profile --model model.m
  mpirun -f hostfile -np 4 python -m dllama_py profile --model model.m --trace trace.json --svg token.svg
  mpirun -f hostfile -np 3 python -m dllama_py profile --topology pipeline --model model.gguf
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
    if arguments.plan_only:
        raise UsageError("--plan-only starts nothing that could be profiled; the mode that only plans is plan")
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
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "no profile"
        raise UsageError(f"--beside {path}: {reason}; expected what `profile --json` prints") from error
    profile: dict[str, Any] = found
    return profile


@dataclass(frozen=True, slots=True)
class _Links:
    """Between pairs of ranks, for a pipeline, or between the nodes of the tensor topology; neither on one node."""

    pairs: list[list[Link]] | None = None
    network: Network | None = None


def _profile(comm: Comm, arguments: argparse.Namespace, beside: list[dict[str, Any]]) -> None:
    """All ranks together; the root tells."""
    recording, spans, engine = Recording(), [], None
    settings = replace(options.engine_settings(arguments), reads_memory=True)
    open_model = partial(options.open_model, arguments)
    links = _links(comm, settings.pipeline is not None and settings.pipeline.n_stages != 1)
    before, used_before = read_clocks(comm), cpu_times()
    with shown_progress() as on_progress:
        watch = watch_for(arguments, on_progress, recording)
        with open_engine(settings, comm, open_model, say, partial(check_room, arguments), watch) as engine:
            if engine is not None:
                spans = _measure(engine, recording, arguments.prompt_tokens, arguments.steps)
    after, in_use = read_clocks(comm), busy_cores(comm, used_before)
    ranks = gather(comm, recording.runs[0].stamps.shape[0], recording, before, after)
    if engine is not None:
        one_node_s = next((each["token_ms"] / 1000 for each in beside if each["nodes"] == 1), None)
        stages = [stage.ranks for stage in engine.orders.grid(comm.size).stages]
        if engine.plan is None:  # of ranks that share every layer, those that have some
            n_used = len(stages[0])
            ranks, after = ranks[:n_used], after[:n_used]
        session = Session(ranks, spans, stages, after, one_node_s, max(in_use))
        if busy := busy_line(comm.hosts, in_use):
            say(busy)
        _tell(_report(session, engine, links), arguments, beside)


def _links(comm: Comm, is_pipeline: bool) -> _Links:
    """Nothing of a number of nodes that cannot share a model, which the engine will refuse."""
    if is_pipeline and comm.size > 1:
        return _Links(pairs=measure_pairs(comm))
    return _Links() if comm.size & (comm.size - 1) or comm.size == 1 else _Links(network=measure_network(comm))


def _report(session: Session, engine: Engine, links: _Links) -> TensorReport | PipelineReport:
    """Of a pipeline that is one, by its stages."""
    orders, plan = engine.orders, engine.plan
    if plan is None or links.pairs is None:
        network = links.network or _network(links.pairs, len(session.ranks))
        return tensor_report(session, orders.config, orders.exchange, network)
    places = places_of(plan, session.stages)
    return pipeline_report(session, PipelineFacts(places, links.pairs, orders.activations, partial(other_split, plan)))


def _network(pairs: list[list[Link]] | None, n_nodes: int) -> Network | None:
    """Of the first so many."""
    if pairs is None or n_nodes == 1:
        return None
    distances = [1 << k for k in range(n_nodes.bit_length() - 1)]
    return slowest([[pairs[rank][rank ^ apart] for rank in range(n_nodes)] for apart in distances])


def _measure(engine: Engine, recording: Recording, n_prompt: int, n_steps: int) -> list[Span]:
    """Prefill and decode after a warm-up; end tokens are ignored."""
    prompt = some_prompt(engine, n_prompt)
    sequence = warmed_up(engine, prompt, n_steps)
    engine.runner.read_bytes_per_s()
    return _spans(sequence, len(cut_steps(recording.programs, recording.runs)), prompt, n_steps)


def _spans(sequence: CachedSequence, n_before: int, prompt: list[int], n_steps: int) -> list[Span]:
    """The steps of one generation: one a chunk of the prompt, whose last gives the first token, then one a token."""
    events = list(generate(sequence, prompt, SamplerSettings(), n_steps, ANY_ID))
    chunks = [event for event in events if isinstance(event, PromptChunk)]
    steps = [*((PREFILL, chunk) for chunk in chunks), *((DECODE, token) for token in events[len(chunks) + 1 :])]
    return [Span(phase, event.cost.n_rows, n_before + number) for number, (phase, event) in enumerate(steps)]


def _tell(found: TensorReport | PipelineReport, arguments: argparse.Namespace, beside: list[dict[str, Any]]) -> None:
    times, session = found.times, found.times.session
    if arguments.trace:
        arguments.trace.write_text(json.dumps(trace(session.ranks, session.spans, times.steps)))
    if arguments.svg:
        token = Token(session.spans[times.typical], *times.steps[times.typical : times.typical + 2])
        arguments.svg.write_text(picture(session.ranks, token, found.bars(beside)))
    if arguments.json:
        print(json.dumps(found.as_json()), flush=True)
    else:
        show(found)
