"""Scores as the root would have them of logits that are all here, made the slow, obvious way; and of N ranks."""

from dataclasses import dataclass

import numpy as np

from dllama_py.engine.cost import FREE, StepCost
from dllama_py.engine.sampler import draw_within
from dllama_py.engine.scores import Ask, Scores
from dllama_py.engine.step import Floats
from dllama_py.kernels.keys import LAST_ID, NOTHING

N_SHARES = 8


def key(logit: float, token: int) -> int:
    """A candidate as one integer (kernels/keys.py), in Python's integers."""
    bits = 0x7FC00000 if np.isnan(logit) else int(np.array([logit + 0.0], np.float32).view(np.int32)[0])
    return (bits if bits >= 0 else bits ^ 0x7FFFFFFF) * 2**32 + (LAST_ID - token)


def borders(n_vocab: int, n_parts: int) -> list[int]:
    return [n_vocab * part // n_parts for part in range(n_parts + 1)]


@dataclass
class AllHere:
    """The rest of a row: all of it. Counts how often it was asked."""

    row: Floats
    ask: Ask
    n_asked: int = 0
    cost: StepCost = FREE

    def logits(self) -> Floats:
        self.n_asked += 1
        return self.row[: self.ask.n_tokens]

    def draw(self, share: int, part: float) -> int:
        start, stop = borders(len(self.row), N_SHARES)[share : share + 2]
        return start + draw_within(self.row[start : min(stop, self.ask.n_tokens)], part, self.ask.temperature)


def scores_of(row: Floats, ask: Ask, n_ranks: int = 1) -> Scores:
    """What ranks with equal parts of a vocabulary would tell; the sums in float64."""
    tokens = range(min(ask.n_tokens, len(row)))
    keys = []
    for start, stop in zip(borders(len(row), n_ranks), borders(len(row), n_ranks)[1:], strict=False):
        found = sorted((key(row[i], i) for i in tokens[start:stop] if row[i] != -np.inf), reverse=True)
        keys.append((found + [NOTHING] * ask.n_candidates)[: ask.n_candidates])
    shares = []
    for start, stop in zip(borders(len(row), N_SHARES), borders(len(row), N_SHARES)[1:], strict=False):
        part = row[start : min(stop, len(tokens))].astype(np.float64)
        largest = part.max(initial=-np.inf)
        finite = part[np.isfinite(part)]
        total = np.exp((finite - largest) / ask.temperature).sum() if ask.temperature and len(finite) else 0.0
        shares.append((largest, total))
    return Scores(ask, np.array(keys, np.int64), np.array(shares), AllHere(row, ask))
