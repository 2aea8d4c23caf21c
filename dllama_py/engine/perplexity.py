"""How surprised the model is by a text, in nats; the same bits for every number of ranks, chunk size and CPU."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal

import numpy as np
from numpy.typing import NDArray

from dllama_py.engine.exponentials import exp_weights, tree_sum
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.step import Steps
from dllama_py.errors import InputError

_DIGITS = Context(prec=25)  # correctly rounded on every platform, unlike the logarithm of a C library

Scored = Callable[[int], None]  # ids that are done


@dataclass(frozen=True, slots=True)
class Surprise:
    """Of `n_tokens` scored tokens together."""

    nats: float
    n_tokens: int

    @property
    def nats_per_token(self) -> float:
        return self.nats / self.n_tokens

    @property
    def perplexity(self) -> float:
        return float(_DIGITS.exp(Decimal(self.nats_per_token)))


def windows(ids: Sequence[int], length: int) -> list[Sequence[int]]:
    """The ids in runs of `length`; a last one of a single id, which could not be scored, is left out."""
    return [ids[start : start + length] for start in range(0, len(ids) - 1, length)]


def measure(runner: Steps, ids: Sequence[int], length: int, on_scored: Scored) -> Surprise:
    """The ids in windows that know nothing of each other; the first id of each is not scored. Needs two ids."""
    nats: list[float] = []
    for number, window in enumerate(windows(ids, length)):
        sequence = CachedSequence(runner, slot=0)
        sequence.start(window)
        targets = iter(window[1:])
        for step in sequence.feed(window[:-1], want_all=True):
            nats += [surprise(row, next(targets)) for row in step.logits]
            on_scored(number * length + len(sequence.ids))
    on_scored(len(ids))
    return Surprise(math.fsum(nats), len(nats))


def surprise(logits: NDArray[np.float32], target: int) -> float:
    """-log softmax(logits)[target] in nats, over all rows of the head. InputError if the logits are no numbers."""
    largest = float(logits.max())
    if not math.isfinite(largest):
        raise InputError(f"the model gave a logit of {largest}; its weights may be damaged")
    total = tree_sum(exp_weights(logits, largest, 1.0))
    return float(_DIGITS.ln(Decimal(total))) - (float(logits[target]) - largest)
