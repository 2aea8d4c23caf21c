"""Engines for tests: opened on any world, asked for the logits of ids in any cut."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dllama_py.boot import Engine, open_engine
from dllama_py.engine.generate import generate
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.step import Row, Work
from dllama_py.engine.token_loop import Token
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.settings import EngineSettings
from dllama_py.transport.comm import Comm, SoloComm

Logits = NDArray[np.float32]


@contextmanager
def engine_on(comm: Comm, model: Path, **settings: Any) -> Iterator[Engine | None]:
    """As boot.open_engine, with the settings that differ from the defaults."""
    wishes = EngineSettings(**{"n_threads": 1, **settings})
    with open_engine(wishes, comm, lambda: open_checkpoint(model), lambda line: None) as engine:
        yield engine


def solo_logits(model: Path, texts: Sequence[Sequence[int]], **settings: Any) -> list[Logits]:
    """float32 [ids, V] of each text, computed by this process alone."""
    with engine_on(SoloComm(), model, **settings) as engine:
        assert engine is not None
        return [logits_of(engine, text) for text in texts]


def logits_of(engine: Engine, ids: Sequence[int], slot: int = 0, chunk_rows: int | None = None) -> Logits:
    """float32 [ids, V], from scratch."""
    return fed(CachedSequence(engine.runner, slot, chunk_rows), ids)


def fed(sequence: CachedSequence, ids: Sequence[int]) -> Logits:
    """Logits of the ids that were not cached, float32 [new ids, V]."""
    reused = sequence.start(ids)
    return np.concatenate([step.logits for step in sequence.feed(ids[reused:], want_all=True)])


def in_batches(
    engine: Engine, texts: Sequence[Sequence[int]], steps: Sequence[Sequence[int]]
) -> list[dict[int, Logits]]:
    """Texts that are computed together, each in its slot; `steps` says how many ids of each a step takes.

    -> for each text the logits, float32 [V], of the last id that a step took, by its position.
    """
    done = [0] * len(texts)
    found: list[dict[int, Logits]] = [{} for _ in texts]
    for slot in range(len(texts)):
        engine.runner.cut(slot, 0)
    for step in steps:
        rows: list[Row] = []
        wanted: dict[int, tuple[int, int]] = {}  # row -> slot, position
        for slot, n_rows in enumerate(step):
            rows += [Row(texts[slot][position], slot, position) for position in range(done[slot], done[slot] + n_rows)]
            done[slot] += n_rows
            if n_rows:
                wanted[len(rows) - 1] = slot, done[slot] - 1
        for first in range(0, len(rows), engine.runner.max_rows):  # how many these are, the machine's speed may say
            part = range(first, min(first + engine.runner.max_rows, len(rows)))
            asked = [row for row in wanted if row in part]
            logits = engine.runner.forward(Work(rows[part.start : part.stop], [row - first for row in asked])).logits
            for row, scores in zip(asked, logits, strict=True):
                slot, position = wanted[row]
                found[slot][position] = scores
    return found


def ids_of(engine: Engine, prompt: Sequence[int], sampling: SamplerSettings, n_tokens: int) -> list[int]:
    """What the engine says after the prompt, from scratch."""
    sequence = CachedSequence(engine.runner, slot=0)
    events = generate(sequence, prompt, sampling, n_tokens, engine.orders.config.vocab_size)
    return [event.id for event in events if isinstance(event, Token)]
