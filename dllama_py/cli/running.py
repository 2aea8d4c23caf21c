"""What the modes that run a model share: the world and the engine."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from dllama_py.boot import Check, Engine, Say, Watch, open_engine, unsaid
from dllama_py.cli import options
from dllama_py.cli.plan_table import plan_page, stage_line, stage_page
from dllama_py.cli.progress import shown_progress
from dllama_py.cli.tables import table
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.memory_plan import MemoryPlan
from dllama_py.planning.plan import Plan
from dllama_py.planning.plan_file import as_json
from dllama_py.progress import Progress
from dllama_py.prompting import Text
from dllama_py.settings import EngineSettings
from dllama_py.sizes import megabytes, size
from dllama_py.stamps import Recording
from dllama_py.transport.world import joined_world


@contextmanager
def running_engine(
    arguments: argparse.Namespace,
    check: Check,
    settings: EngineSettings | None = None,
    open_model: Callable[[], Checkpoint] | None = None,
    progress: Callable[[], AbstractContextManager[Progress]] = shown_progress,
) -> Iterator[Engine | None]:
    """The engine at the root; None on the other ranks, once the root is done with it.

    Settings and model are those of the command line unless given. `check`: see `boot.open_engine`. `progress`: opens
    what is told how far loading is.
    """
    settings = settings or options.engine_settings(arguments)
    open_model = open_model or partial(options.open_model, arguments)
    with joined_world() as comm, progress() as on_progress:
        with open_engine(settings, comm, open_model, say, check, watch_for(arguments, on_progress)) as engine:
            yield engine


def watch_for(arguments: argparse.Namespace, on_progress: Progress, recording: Recording | None = None) -> Watch:
    """What is said while an engine opens: little, unless --verbose asks for all; the memory if it is not enough."""

    def show_memory(plan: MemoryPlan) -> None:
        if arguments.verbose or not plan.fits:
            say(memory_table(plan))

    details = say if arguments.verbose else unsaid
    return Watch(show_memory, on_progress, recording, partial(_show_stages, arguments), details)


def _show_stages(arguments: argparse.Namespace, plan: Plan) -> None:
    """The stages of a pipeline; with --plan-only they are the result."""
    if not arguments.plan_only:
        say(stage_page(plan) if arguments.verbose else stage_line(plan))
    elif getattr(arguments, "json", False):
        print(json.dumps(as_json(plan)), flush=True)
    else:
        print(plan_page(plan), flush=True)


def memory_table(plan: MemoryPlan) -> str:
    """Every node's needs in MB against what is free there."""
    rows = [
        (
            f"rank {node.rank} on {node.host}",
            *map(megabytes, (node.needs.weights_bytes, node.needs.cache_bytes, node.needs.buffers_bytes)),
            *([megabytes(node.needs.draft_bytes)] if plan.draft else []),
            *map(megabytes, (node.needs.python_bytes, node.needs.total_bytes)),
            "unknown" if node.free_bytes is None else megabytes(node.free_bytes),
        )
        for node in plan.nodes
    ]
    draft = ["draft"] if plan.draft else []
    heads = ("memory in MB", "weights", "KV cache", "buffers", *draft, "program", "total", "free")
    return f"{table(heads, rows)}\nthere is memory for a context of {plan.longest_context} (--max-seq-len)"


def announce(engine: Engine, sampling: SamplerSettings, say: Say, verbose: bool = False) -> None:
    """Time to get ready, machines, threads and memory, and the seed where one is used."""
    threads = sorted({facts.n_threads for facts in engine.ranks})
    most = max(node.needs.total_bytes for node in engine.memory.nodes)
    n_ranks, hosts = len(engine.ranks), list(dict.fromkeys(facts.host for facts in engine.ranks))
    nodes = f"{n_ranks} node{'s' * (n_ranks > 1)} on {', '.join(map(str, hosts))}"
    each = " each" if n_ranks > 1 else ""
    seed = f"; seed {sampling.seed}" if sampling.temperature > 0 else ""
    say(
        f"ready after {engine.load_s:.1f} s: {nodes}, {' to '.join(map(str, threads))} "
        f"thread{'s' * (threads != [1])}{each}, {size(most)} of memory{' at most' * (n_ranks > 1)}{seed}"
    )
    if verbose:
        per_host = ", ".join(f"{facts.host} {facts.n_threads}" for facts in engine.ranks)
        say(f"threads of each node: {per_host} ({engine.threads.reason})")


def tell_notes(text: Text | None) -> None:
    """What the reader of the tokenizer has to say."""
    for line in text.tokenizer.notes if text else ():
        say(line)


def say(line: str) -> None:
    """To the user, beside the answer: on standard error."""
    print(line, file=sys.stderr, flush=True)
