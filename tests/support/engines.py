"""Engines for tests: opened on any world, asked for the logits of ids in any cut."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dllama_py.boot import Engine, open_engine
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.step import Row
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


def solo_logits(model: Path, ids: Sequence[int], **settings: Any) -> Logits:
    """float32 [ids, V], computed by this process alone."""
    with engine_on(SoloComm(), model, **settings) as engine:
        assert engine is not None
        return logits_of(engine, ids)


def logits_of(engine: Engine, ids: Sequence[int], slot: int = 0) -> Logits:
    """float32 [ids, V], from scratch."""
    return fed(CachedSequence(engine.runner, slot), ids)


def fed(sequence: CachedSequence, ids: Sequence[int]) -> Logits:
    """Logits of the ids that were not cached, float32 [new ids, V]."""
    reused = sequence.start(ids)
    return np.concatenate([step.logits for step in sequence.feed(ids[reused:], want_all=True)])


def in_a_batch(engine: Engine, ids: Sequence[int]) -> Logits:
    """The logits of `ids` in slot 1 while slots 0 and 2 work on other ids, one token of each a step."""
    for slot in range(3):
        engine.runner.cut(slot, 0)
    out = []
    for position, token in enumerate(ids):
        others = [(token * 7 + position) % 300, (token * 3 + 1) % 300]
        rows = [Row(others[0], 0, position), Row(token, 1, position), Row(others[1], 2, position)]
        out.append(engine.runner.forward(rows, [1]).logits)
    return np.concatenate(out)
