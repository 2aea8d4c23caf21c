"""What the modes that run a model share: the world and the engine."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from dllama_py.boot import Check, Engine, Say, Watch, open_engine
from dllama_py.cli import options
from dllama_py.cli.plan_table import plan_page, stage_page
from dllama_py.cli.progress import shown_progress
from dllama_py.cli.tables import table
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.memory_plan import MemoryPlan
from dllama_py.planning.plan import Plan
from dllama_py.planning.plan_file import as_json
from dllama_py.progress import Progress
from dllama_py.settings import EngineSettings
from dllama_py.sizes import size
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
        watch = Watch(lambda plan: say(plan_table(plan)), on_progress, on_stages=partial(show_stages, arguments))
        with open_engine(settings, comm, open_model, say, check, watch) as engine:
            yield engine


def show_stages(arguments: argparse.Namespace, plan: Plan) -> None:
    """The stages of a pipeline; with --plan-only they are the result."""
    if not arguments.plan_only:
        say(stage_page(plan))
    elif getattr(arguments, "json", False):
        print(json.dumps(as_json(plan)), flush=True)
    else:
        print(plan_page(plan), flush=True)


def plan_table(plan: MemoryPlan) -> str:
    """Every node's needs against what it has."""
    rows = [
        (
            f"rank {node.rank} on {node.host}",
            *map(size, (node.needs.weights_bytes, node.needs.cache_bytes, node.needs.buffers_bytes)),
            *([size(node.needs.draft_bytes)] if plan.draft else []),
            *map(size, (node.needs.python_bytes, node.needs.total_bytes)),
            "unknown" if node.free_bytes is None else size(node.free_bytes),
        )
        for node in plan.nodes
    ]
    draft = ["draft"] if plan.draft else []
    heads = ("memory", "weights", "KV cache", "buffers", *draft, "program", "together", "free")
    return f"{table(heads, rows)}\nroom for a context of {plan.longest_context} (--max-seq-len)"


def announce(engine: Engine, sampling: SamplerSettings, say: Say) -> None:
    """Threads, time to get ready, and the seed where one is used."""
    hosts = {facts.host: facts.n_threads for facts in engine.ranks}
    threads = ", ".join(f"{host} {n}" for host, n in hosts.items())
    say(f"threads of each node: {threads} ({engine.threads.reason}); ready after {engine.load_s:.1f} s")
    if sampling.temperature > 0:
        say(f"seed {sampling.seed}")


def say(line: str) -> None:
    """To the user, beside the answer: on standard error."""
    print(line, file=sys.stderr, flush=True)
