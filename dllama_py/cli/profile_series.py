"""`profile --nodes`: one profile after the other, the largest last, with the others beside it."""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from dllama_py.cli import options
from dllama_py.cli.bench_series import passed_on
from dllama_py.cli.placing import placements
from dllama_py.cli.running import say
from dllama_py.cli.tables import table
from dllama_py.cluster.series import Job, answer_of, refuse_under_launcher

HEADS = ("nodes", "tok/s", "token ms", "compute ms", "wait ms", "transfer ms", "between programs ms")
PARTS = ("compute_ms", "wait_ms", "transfer_ms", "outside_ms")


def profile_nodes(arguments: argparse.Namespace) -> int:
    """Profiles every node count; pictures and traces are of the largest."""
    refuse_under_launcher("profile --nodes")
    is_pipeline = options.engine_settings(arguments).pipeline is not None
    places = placements(arguments, sorted(set(arguments.nodes)), is_pipeline)
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for placement in places:
            say(f"profiling {placement.n_ranks} node{'s' * (placement.n_ranks > 1)}")
            words = ["profile", "--json", *passed_on(arguments)]
            if arguments.n_threads is not None:
                words += ["--nthreads", str(arguments.n_threads)]
            if placement is places[-1]:
                words += _outputs(arguments, _written(found, Path(folder)))
            found.append(answer_of(Job(placement, words, patience_s=arguments.timeout)))
    advice = found[-1]["advice"]
    if arguments.json:
        print(json.dumps({"profiles": found, "advice": advice}), flush=True)
    else:
        print(table(HEADS, [_row(each) for each in found]))
        print(advice["sentence"], flush=True)
    return 0


def _written(found: list[dict[str, Any]], folder: Path) -> list[Path]:
    """The profiles so far, as files for the last job."""
    paths = [folder / f"{number}.json" for number in range(len(found))]
    for path, profile in zip(paths, found, strict=True):
        path.write_text(json.dumps(profile))
    return paths


def _outputs(arguments: argparse.Namespace, others: list[Path]) -> list[str]:
    beside = [str(path) for path in (*others, *arguments.beside)]
    words = ["--beside", *beside] if beside else []
    for option, path in (("--svg", arguments.svg), ("--trace", arguments.trace)):
        words += [option, str(path.resolve())] if path else []
    return words


def _row(profile: dict[str, Any]) -> list[str]:
    """Means over the nodes."""
    nodes = profile["per_token"]
    parts = [sum(node[part] for node in nodes) / len(nodes) for part in PARTS]
    figures = [profile["decode_tok_s"], profile["token_ms"], *parts]
    return [str(profile["nodes"]), *(f"{figure:.2f}" for figure in figures)]
