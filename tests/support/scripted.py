"""A stand-in for the runner: no model, but logits that make a greedy sampler say what the test has written."""

from collections.abc import Sequence

import numpy as np

from dllama_py.engine.step import Row, StepCost, StepResult, Work
from tests.support.known import scores_of
from tests.support.stages import OneStage


class ScriptedRunner(OneStage):
    """After the prompt's last row the script's first id is the likeliest, and so on. Remembers what it was told."""

    def __init__(
        self, script: Sequence[int], n_vocab: int = 16, max_rows: int = 4, context: int = 64, prompt_length: int = 1
    ) -> None:
        self.max_rows = max_rows
        self.context = context
        self.steps: list[list[Row]] = []
        self.cuts: list[tuple[int, int]] = []
        self._script = list(script)
        self._n_vocab = n_vocab
        self._first = prompt_length - 1

    def forward(self, work: Work, /) -> StepResult:
        rows, wanted, asks = work.rows, work.wanted, work.asks
        self.steps.append(list(rows))
        logits = np.zeros((len(wanted), self._n_vocab), np.float32)
        for i, number in enumerate(wanted):
            logits[i, self._script[rows[number].position - self._first]] = 1
        cost = StepCost(1.0, 0.5, 0.25, 10, 20, len(rows))
        if not asks:
            return StepResult(logits, cost)
        return StepResult(logits[:0], cost, [scores_of(row, ask) for row, ask in zip(logits, asks, strict=True)])

    def cut(self, slot: int, length: int, /) -> None:
        self.cuts.append((slot, length))
