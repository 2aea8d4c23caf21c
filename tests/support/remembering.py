"""A stand-in for the runner whose numbers depend on all ids that its cache holds up to a row, as a model's do."""

import hashlib
from collections.abc import Sequence

import numpy as np

from dllama_py.engine.step import StepCost, StepResult, Work
from tests.support.known import scores_of
from tests.support.stages import OneStage

N_VOCAB = 8


class RememberingRunner(OneStage):
    """One slot. What a step has written beyond what is true stays there until it is written over or cut.

    `seconds`: of a step of 1, 2, ... rows, the last one of all longer ones. `noise`: how far from the model of
    tests without it.
    """

    def __init__(
        self, max_rows: int = 64, context: int = 64, seconds: Sequence[float] = (1.0,), noise: float = 0.0
    ) -> None:
        self.max_rows = max_rows
        self.context = context
        self.n_rows: list[int] = []  # of each step
        self._seconds = seconds
        self._noise = noise
        self._cache: list[int] = []

    def forward(self, work: Work, /) -> StepResult:
        rows, wanted, asks = work.rows, work.wanted, work.asks
        assert len(rows) <= self.max_rows
        for row in rows:
            assert row.position <= len(self._cache), "a hole"
            assert row.position < self.context
            self._cache[row.position : row.position + 1] = [row.id]
        self.n_rows.append(len(rows))
        logits = np.array([self._logits(rows[number].position) for number in wanted], np.float32)
        seconds = self.seconds_of(len(rows))
        cost = StepCost(seconds, seconds, 0.0, 0, 0, len(rows))
        return StepResult(logits[:0], cost, [scores_of(row, ask) for row, ask in zip(logits, asks, strict=True)])

    def seconds_of(self, n_rows: int) -> float:
        return self._seconds[min(n_rows, len(self._seconds)) - 1]

    def cut(self, slot: int, length: int, /) -> None:
        del self._cache[length:]

    def _logits(self, position: int) -> np.ndarray:
        digest = hashlib.sha256(bytes(self._cache[: position + 1])).digest()
        own, other = np.random.default_rng(int.from_bytes(digest[:8])).normal(size=(2, N_VOCAB))
        return own + self._noise * other
