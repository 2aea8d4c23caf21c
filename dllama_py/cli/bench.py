"""Mode `bench`: how fast prefill and decode are, and how much of the speed of memory and kernels they use."""

import argparse
import json
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dllama_py.boot import Engine, open_engine
from dllama_py.cli import options
from dllama_py.cli.bench_minutes import endure, gather_sensors, tell
from dllama_py.cli.bench_series import compare_nodes, compare_threads
from dllama_py.cli.bench_table import bench_table
from dllama_py.cli.bench_together import together_tok_s
from dllama_py.cli.measuring import check_room, generated, macs_per_prompt_token, some_prompt, warmed_up
from dllama_py.cli.placing import add_placing_options, counts
from dllama_py.cli.progress import shown_progress
from dllama_py.cli.running import say, watch_for
from dllama_py.cluster.busy import busy_cores, busy_line, cpu_times
from dllama_py.cluster.cores import choose_threads
from dllama_py.errors import UsageError
from dllama_py.float_types import FloatType
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.formats.shapes import shape_named
from dllama_py.formats.synthetic import SyntheticCheckpoint
from dllama_py.formats.tensors import tensor_specs
from dllama_py.orders import Orders
from dllama_py.profiling.sensors import SensorLog
from dllama_py.settings import WEIGHT_TYPES
from dllama_py.transport.comm import Comm
from dllama_py.transport.hosts import sharing
from dllama_py.transport.world import joined_world

EPILOG = """examples:
  python -m dllama_py bench --shape qwen3_0.6b --weights q4_k
  mpirun -np 2 python -m dllama_py bench --model model.m --prompt-tokens 168 --steps 64 --json
  python -m dllama_py bench --model model.m --nodes 1,2,4 --hostfile hostfile    which number of nodes to use
  python -m dllama_py bench --model model.m --nthreads auto                      which number of threads
  mpirun -f hostfile -np 4 python -m dllama_py bench --model model.m --minutes 10    whether the speed lasts"""

AUTO = "auto"
Figures = dict[str, Any]


def add_options(parser: options.Parser) -> None:
    parser.epilog, parser.formatter_class = EPILOG, argparse.RawDescriptionHelpFormatter
    parser.add_argument("--shape", metavar="NAME", help="random weights in the shape of a known model, no file needed")
    parser.add_argument("--layers", type=options.positive, metavar="N", help="with --shape: only so many layers")
    parser.add_argument("--prompt-tokens", type=options.positive, default=168, metavar="P", help="default: 168")
    parser.add_argument("--steps", type=options.positive, default=64, metavar="N", help="tokens (default: 64)")
    parser.add_argument("--sequences", type=options.positive, metavar="N", help="measure also so many at once")
    parser.add_argument("--nodes", type=counts, metavar="1,2,4", help="measure each number of nodes, recommend one")
    parser.add_argument("--minutes", type=_minutes, metavar="M", help="decode so long: does the speed last?")
    every_type = [kind.label for kind in FloatType]
    options.add_model_options(parser, every_type, "of --shape, or of a folder that is quantised")
    options.add_engine_options(parser, _threads)
    add_placing_options(parser)
    options.add_json_option(parser)


def run(arguments: argparse.Namespace) -> int:
    _refuse(arguments)
    if arguments.nodes:
        return compare_nodes(arguments)
    if arguments.n_threads == AUTO:
        return compare_threads(arguments)
    with joined_world() as comm:
        if arguments.minutes:
            _endure(comm, arguments)
        else:
            _measure_once(comm, arguments)
    return 0


def _minutes(text: str) -> float:
    """More than 0, as a type for argparse."""
    try:
        minutes = float(text)
    except ValueError:
        minutes = 0.0
    if not 0 < minutes < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes above 0")
    return minutes


def _threads(text: str) -> int | str:
    return AUTO if text == AUTO else options.positive(text)


def _refuse(arguments: argparse.Namespace) -> None:
    if arguments.shape and arguments.model:
        raise UsageError("--shape and --model exclude each other; give one of them")
    if arguments.layers and not arguments.shape:
        raise UsageError("--layers cuts a --shape short; a --model keeps its layers")
    if not arguments.shape and arguments.weights not in (None, *WEIGHT_TYPES):
        raise UsageError(f"--weights {arguments.weights} is for --shape; folders become {', '.join(WEIGHT_TYPES)}")
    if arguments.steps < 2:
        raise UsageError("--steps 1: the first token comes with the prompt; expected at least 2 to time decoding")
    asked = [
        name
        for name, is_given in (
            ("--nodes", arguments.nodes),
            ("--nthreads auto", arguments.n_threads == AUTO),
            ("--minutes", arguments.minutes),
            ("--sequences", arguments.sequences),
        )
        if is_given
    ]
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)}: give one of them at a time")


@contextmanager
def _engine(comm: Comm, arguments: argparse.Namespace) -> Iterator[Engine | None]:
    settings = replace(
        options.engine_settings(arguments), n_slots=arguments.sequences or 1, reads_memory=not arguments.minutes
    )
    with shown_progress() as on_progress:
        watch, check = watch_for(arguments, on_progress), partial(check_room, arguments)
        with open_engine(settings, comm, partial(_open, arguments), say, check, watch) as engine:
            yield engine


def _open(arguments: argparse.Namespace) -> Checkpoint:
    if not arguments.shape:
        return options.open_model(arguments)
    kind = FloatType.named(arguments.weights or "q40")
    return SyntheticCheckpoint(shape_named(arguments.shape, arguments.layers), kind)


def _endure(comm: Comm, arguments: argparse.Namespace) -> None:
    """Every rank watches its sensors; the root generates."""
    log, endurance = SensorLog(), None
    log.start()
    with _engine(comm, arguments) as engine:
        if engine is not None:
            endurance = endure(engine, arguments)
    log.stop()
    sensors = gather_sensors(comm, log, endurance)
    if endurance is not None:
        tell(endurance, sensors, [host.name for host in comm.hosts], arguments.json)


def _measure_once(comm: Comm, arguments: argparse.Namespace) -> None:
    figures: Figures | None = None
    kind, before = FloatType.Q40, cpu_times()
    with _engine(comm, arguments) as engine:
        if engine is not None:
            figures = _measure(engine, arguments.prompt_tokens, arguments.steps)
            if arguments.sequences:
                figures |= _measure_together(engine, arguments)
            kind = _most_used(engine.orders)
    in_use = busy_cores(comm, before)
    kernel = _kernel_macs_per_s(comm, kind, arguments.n_threads)
    if figures is not None:
        figures["kernel_gmac_s"] = kernel / 1e9
        figures["gemm_share"] = figures["gemm_gmac_s"] / figures["kernel_gmac_s"]
        figures["busy_cores"] = max(in_use)
        if busy := busy_line(comm.hosts, in_use):
            say(busy)
        _report(figures, arguments.json)


def _measure(engine: Engine, n_prompt: int, n_steps: int) -> Figures:
    """Prefill and decode, before and after them the memory's own speed."""
    runner, prompt = engine.runner, some_prompt(engine, n_prompt)
    before = runner.read_bytes_per_s()
    sequence = warmed_up(engine, prompt, n_steps)
    phases = generated(sequence, prompt, n_steps)
    read = max(before, runner.read_bytes_per_s())
    bytes_per_token = sum(facts.bytes_per_token for facts in engine.ranks)
    decode_tok_s = phases.n_decoded / phases.decode_s
    prefill_tok_s = n_prompt / phases.prefill_s
    spent_s = phases.decode_s - sum(cost.kernel_seconds + cost.sync_seconds for cost in phases.decode_costs)
    return {
        "nodes": len(engine.ranks),
        "threads": engine.threads.n_threads,
        "decode_tok_s": decode_tok_s,
        "prefill_tok_s": prefill_tok_s,
        "weight_bytes_per_token": bytes_per_token,
        "read_gb_s": read / 1e9,
        "roofline": bytes_per_token * decode_tok_s / read,
        "gemm_gmac_s": macs_per_prompt_token(engine) * prefill_tok_s / 1e9,
        "sync_ms_per_token": 1000 * sum(cost.sync_seconds for cost in phases.decode_costs) / phases.n_decoded,
        "python_ms_per_token": 1000 * spent_s / phases.n_decoded,
        "load_s": engine.load_s,
        "compile_s": engine.ranks[0].compile_s,
        "private_bytes": [private for private, _ in runner.memory()],
        **_foretold(engine, n_prompt),
    }


def _measure_together(engine: Engine, arguments: argparse.Namespace) -> Figures:
    rate = together_tok_s(engine, arguments.sequences, arguments.prompt_tokens, arguments.steps)
    return {"sequences": arguments.sequences, "together_tok_s": rate}


def _foretold(engine: Engine, n_prompt: int) -> Figures:
    """What the plan of a pipeline said."""
    if engine.plan is None:
        return {}
    return {
        "foretold_decode_tok_s": engine.plan.decode_tok_s,
        "foretold_prefill_tok_s": engine.plan.prefill_tok_s_of(n_prompt),
        "foretold_together_tok_s": engine.plan.batch_tok_s,
    }


def _most_used(orders: Orders) -> FloatType:
    """The type of most weights of the layers."""
    elements: Counter[FloatType] = Counter()
    for spec in tensor_specs(orders.config):
        if spec.layer is not None and spec.is_matrix:
            elements[orders.kinds[spec.name]] += spec.n_elements
    return elements.most_common(1)[0][0]


def _kernel_macs_per_s(comm: Comm, kind: FloatType, n_threads: int | None) -> float:
    """Of all ranks together, all at once, of the kernel for the root's `kind`."""
    from dllama_py.kernels.bare import bare_macs_per_s  # numba takes most of a second to import

    kinds = list(FloatType)
    word = np.array([kinds.index(kind)], np.int64)
    comm.broadcast_idle(word)
    threads = choose_threads(n_threads, *sharing(comm.hosts, comm.rank)).n_threads
    every = np.zeros((comm.size, 1))
    comm.gather(np.array([bare_macs_per_s(kinds[word[0]], threads)]), list(every) if comm.rank == 0 else None)
    return float(every.sum())


def _report(figures: Figures, as_json: bool) -> None:
    print(json.dumps(figures) if as_json else bench_table(figures), flush=True)
