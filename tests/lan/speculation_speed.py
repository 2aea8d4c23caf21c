"""Run on every rank: how fast one sequence is decoded without guesses, with them, and with steps sent ahead.

A row of docs/benchmarks.md for each. The modes follow each other in one run, some times over, and the best of each
counts; the ids must be the same.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

from dllama_py.boot import Engine, open_engine
from dllama_py.engine.draft_model import DraftModel
from dllama_py.engine.generate import generate
from dllama_py.engine.lookup import Lookup
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.speculation import NO_SPECULATION, Speculating, Speculation
from dllama_py.engine.token_loop import Token
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.prompting import need_text, open_text
from dllama_py.settings import EngineSettings, PipelineSettings
from dllama_py.transport.world import joined_world

HEADS = "| guesses | tok/s | tokens a step | guesses right | cancelled steps |\n| --- | --- | --- | --- | --- |"


def main() -> None:
    options = _options()
    settings = EngineSettings(
        n_threads=options.nthreads,
        context=2048,
        draft=options.draft,
        pipeline=PipelineSettings(split=options.split) if options.split else None,
    )
    with joined_world() as comm:
        with open_engine(settings, comm, lambda: open_checkpoint(options.model), lambda line: None) as engine:
            if engine is not None:
                print(HEADS, *_rows(engine, options), sep="\n", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--split", help="layers of each stage; one stage without it")
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--nthreads", type=int, default=1)
    parser.add_argument("--prompt", default="Tell me a story about a fox.")
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--steps", type=int, default=128, help="tokens")
    parser.add_argument("--tries", type=int, default=2)
    return parser.parse_args()


def _rows(engine: Engine, options: argparse.Namespace) -> Iterator[str]:
    runner, manner = engine.runner, SamplerSettings(options.temperature, seed=1)
    prompt = need_text(open_text(engine.checkpoint, None), "a chat", "").chat_ids(options.prompt)
    n_vocab = engine.orders.config.vocab_size
    drafter = DraftModel(engine.draft, manner, n_vocab) if engine.draft else Lookup()
    speculations = {"none": NO_SPECULATION, "verified first": Speculation(drafter), "ahead": Speculation(drafter)}
    best: dict[str, tuple[float, Speculating]] = {}
    answers = set()
    most_in_flight = runner.n_in_flight
    for _ in range(options.tries):
        for name, speculation in speculations.items():
            if runner.n_stages > 1:
                runner._chain.n_in_flight = most_in_flight if name == "ahead" else 1
            events = generate(CachedSequence(runner, 0), prompt, manner, options.steps, n_vocab, speculation)
            times_s, ids = [], []
            for event in events:
                if isinstance(event, Token):
                    times_s.append(time.perf_counter())
                    ids.append(event.id)
            answers.add(tuple(ids))
            tok_s = (len(ids) - 1) / (times_s[-1] - times_s[0])
            if tok_s > best.get(name, (0.0,))[0]:
                best[name] = tok_s, _row(name, tok_s, len(ids), speculation)
    assert len(answers) == 1, "the ids differ"
    return (row for _, row in best.values())


def _row(name: str, tok_s: float, n_ids: int, speculation: Speculating) -> str:
    counts = speculation.counts
    if not counts.n_steps:
        return f"| {name} | {tok_s:.1f} | 1 | | |"
    right = f"{counts.n_accepted} of {counts.n_drafted}"
    return f"| {name} | {tok_s:.1f} | {(n_ids - 1) / counts.n_steps:.2f} | {right} | {counts.n_cancelled} |"


if __name__ == "__main__":
    main()
