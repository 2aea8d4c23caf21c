"""`bench --nodes` and `bench --nthreads auto`: one job after the other, a table, and what to use."""

import argparse
import json
import os
from collections.abc import Sequence
from typing import Any

from dllama_py.cli import options
from dllama_py.cli.placing import placements
from dllama_py.cli.running import say
from dllama_py.cli.tables import table
from dllama_py.cluster.cores import SYSTEM, usable_cores
from dllama_py.cluster.job import Placement
from dllama_py.cluster.series import Job, answer_of, refuse_under_launcher
from dllama_py.errors import DllamaError
from dllama_py.profiling.advice import WORTH_IT

ENOUGH = 0.97  # of the best speed; fewer threads leave more to others
COLUMNS = ("decode_tok_s", "prefill_tok_s", "sync_ms_per_token", "roofline")
PASSED_ON = ("model", "shape", "layers", "weights", "prompt_tokens", "steps", "max_seq_len", "buffer_float_type")
PASSED_ON_TOO = (
    "kv_cache_type",
    "chunk",
    "topology",
    "stages",
    "split",
    "activations",
    "plan",
    "save_plan",
    "local_copies",
)

Figures = dict[str, Any]


def compare_nodes(arguments: argparse.Namespace) -> int:
    """Runs a job on each node count and recommends one."""
    refuse_under_launcher("bench --nodes")
    found: dict[int, Figures] = {}
    failure: DllamaError | None = None
    is_pipeline = options.engine_settings(arguments).pipeline is not None
    for placement in placements(arguments, sorted(set(arguments.nodes)), is_pipeline):
        n_nodes = placement.n_ranks
        say(f"measuring {n_nodes} node{'s' * (n_nodes > 1)}")
        try:
            found[n_nodes] = _measured(arguments, placement, arguments.n_threads)
        except DllamaError as error:  # the model cannot be shared so, or does not fit; the others still count
            say(f"not measured: {error}")
            failure = error
    if not found:
        raise failure or AssertionError("no node count")
    best = best_nodes({n: figures["decode_tok_s"] for n, figures in found.items()})
    _tell(arguments, "nodes", found, best, _node_advice(found, best))
    return 0


def compare_threads(arguments: argparse.Namespace) -> int:
    """Runs a job on this machine with each number of threads and recommends one."""
    refuse_under_launcher("bench --nthreads auto")
    found: dict[int, Figures] = {}
    for n_threads in thread_counts(usable_cores(SYSTEM)[0], os.cpu_count() or 1):
        say(f"measuring {n_threads} thread{'s' * (n_threads > 1)}")
        found[n_threads] = _measured(arguments, Placement(1), n_threads)
    best = best_threads({n: figures["decode_tok_s"] for n, figures in found.items()})
    rate = found[best]["decode_tok_s"]
    _tell(arguments, "threads", found, best, f"use --nthreads {best} on this machine: {rate:.1f} tok/s")
    return 0


def thread_counts(n_cores: int, n_cpus: int) -> list[int]:
    """1, 2, 4, ... below the cores, the cores, and all CPUs where these are more (SMT siblings, efficiency cores)."""
    powers = [1 << power for power in range(n_cores.bit_length()) if 1 << power < n_cores]
    return sorted({*powers, n_cores, n_cpus})


def best_nodes(rates: dict[int, float]) -> int:
    """The fewest, unless more bring a fifth."""
    best = min(rates)
    for n_nodes in sorted(rates):
        if rates[n_nodes] >= (1 + WORTH_IT) * rates[best]:
            best = n_nodes
    return best


def best_threads(rates: dict[int, float]) -> int:
    """The fewest that are about as fast as any."""
    return min(n for n, rate in rates.items() if rate >= ENOUGH * max(rates.values()))


def _node_advice(found: dict[int, Figures], best: int) -> str:
    rates = {n: figures["decode_tok_s"] for n, figures in found.items()}
    rate, fewest = rates[best], min(rates)
    others = ", ".join(f"{n}: {rates[n]:.1f}" for n in rates if n != best)
    compared = f"{rate:.1f} tok/s ({others})" if others else f"{rate:.1f} tok/s"
    gain = f", {rate / rates[fewest] - 1:+.0%} over {fewest}" if best != fewest else ""
    return f"use {best} node{'s' * (best > 1)}: {compared}{gain}; more are worth it from {WORTH_IT:+.0%} on"


def _measured(arguments: argparse.Namespace, placement: Placement, n_threads: int | None) -> Figures:
    words = ["bench", "--json", *passed_on(arguments)]
    if n_threads is not None:
        words += ["--nthreads", str(n_threads)]
    return answer_of(Job(placement, words, patience_s=arguments.timeout))


def passed_on(arguments: argparse.Namespace) -> list[str]:
    """The options that say what is measured, as words of a command line."""
    words = ["--replicate-kv"] if arguments.replicate_kv else []
    for name in (*PASSED_ON, *PASSED_ON_TOO):
        value = getattr(arguments, name, None)
        if value is not None and (name, value) != ("split", "auto"):
            words += [f"--{name.replace('_', '-')}", str(value)]
    return words


def _tell(arguments: argparse.Namespace, what: str, found: dict[int, Figures], best: int, advice: str) -> None:
    if arguments.json:
        settings = [{what: n, **figures} for n, figures in found.items()]
        print(json.dumps({"recommended": best, "advice": advice, "settings": settings}), flush=True)
        return
    rows = [(n, *_row(figures)) for n, figures in found.items()]
    print(table((what, "decode tok/s", "prefill tok/s", "sync ms/token", "roofline"), rows))
    print(advice, flush=True)


def _row(figures: Figures) -> Sequence[str]:
    return [f"{figures[name]:.2f}" for name in COLUMNS]
