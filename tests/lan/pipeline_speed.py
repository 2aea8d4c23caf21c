"""Run on every host, or alone: how fast the stages of a pipeline are, as one JSON line of the root.

One sequence's tokens, a prompt's, and those of several sequences at once; the best of some tries each, since whoever
shares the machine makes single ones slower. The ids are hashed: they must be those of one host.
"""

import argparse
import hashlib
import json
import time
from pathlib import Path

from dllama_py.boot import Engine, open_engine
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.together import Together
from dllama_py.engine.token_loop import Token, token_loop
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.settings import EngineSettings, PipelineSettings
from dllama_py.transport.world import joined_world

SHORT_PROMPT = 16
Ids = list[int]


def main() -> None:
    options = _options()
    pipeline = PipelineSettings(split=options.split, activations=options.activations) if options.pipeline else None
    settings = EngineSettings(
        n_threads=1, context=1024, chunk_rows=options.chunk, n_slots=options.sequences, pipeline=pipeline
    )
    with joined_world() as comm:
        with open_engine(settings, comm, lambda: open_checkpoint(options.model), lambda line: None) as engine:
            if engine is not None:
                print(json.dumps(_measured(engine, options)), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--pipeline", action="store_true", help="stages one behind the other")
    parser.add_argument("--split", default="auto")
    parser.add_argument("--activations", default="f32")
    parser.add_argument("--chunk", type=int, default=64, help="rows of a step")
    parser.add_argument("--prompt", type=int, default=512, help="tokens")
    parser.add_argument("--steps", type=int, default=32, help="tokens of each sequence")
    parser.add_argument("--sequences", type=int, default=4)
    parser.add_argument("--tries", type=int, default=2)
    return parser.parse_args()


def _measured(engine: Engine, options: argparse.Namespace) -> dict[str, object]:
    everything: Ids = []
    speeds: dict[str, float] = {}
    for _ in range(options.tries):
        for name, n_sequences, n_prompt, n_tokens in (
            ("decode_tok_s", 1, SHORT_PROMPT, options.steps),
            ("prefill_tok_s", 1, options.prompt, 1),
            ("together_tok_s", options.sequences, SHORT_PROMPT, options.steps),
        ):
            found, seconds = _run(engine, n_sequences, n_prompt, n_tokens)
            n_counted = n_prompt if n_tokens == 1 else n_sequences * (n_tokens - 1)
            speeds[name] = max(speeds.get(name, 0.0), n_counted / seconds)
            everything += found
    hashed = hashlib.sha256(",".join(map(str, everything)).encode()).hexdigest()
    return {**speeds, "ids_sha256": hashed, "nodes": len(engine.ranks)}


def _run(engine: Engine, n_sequences: int, n_prompt: int, n_tokens: int) -> tuple[Ids, float]:
    """-> all ids, and the seconds of the prompt where one token is wanted, else from the last first token on."""
    sequences = [CachedSequence(engine.runner, slot) for slot in range(n_sequences)]
    n_vocab = engine.orders.config.vocab_size
    started = time.perf_counter()
    together = Together[int](engine.runner)
    for slot, sequence in enumerate(sequences):
        prompt = [(31 * i + 7 * slot) % 1000 + 13 for i in range(n_prompt)]
        together.add(slot, token_loop(sequence, prompt, SamplerSettings(), n_tokens, n_vocab))
    found: list[Ids] = [[] for _ in sequences]
    firsts: list[float] = []
    while together.n_loops:
        for number, token in together.turn():
            if isinstance(token, Token):
                firsts += [] if found[number] else [token.at_s]
                found[number].append(token.id)
    ended = time.perf_counter()
    return sum(found, []), firsts[0] - started if n_tokens == 1 else ended - max(firsts)


if __name__ == "__main__":
    main()
