"""From logits to one token id. Only the root samples; it knows nothing of text, slots or other ranks.

Every step is a single IEEE operation (add, multiply, divide, compare, exact scaling) in a written order, so the same
logits, seed and position give the same id on every CPU. Ties go to the lowest id everywhere.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dllama_py.engine.exponentials import Weights, exp_weights, tree_sum
from dllama_py.errors import InputError, UsageError

Ids = NDArray[np.int64]

_MASK64 = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


@dataclass(frozen=True, slots=True)
class SamplerSettings:
    """What a request wishes; `top_k` 0 and `top_p` 0 or 1 mean off, `temperature` 0 means the largest logit."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.temperature) and self.temperature >= 0):
            raise UsageError(f"temperature is {self.temperature}; expected 0 or a positive number")
        if self.top_k < 0:
            raise UsageError(f"top_k is {self.top_k}; expected 0 (off) or the number of tokens to keep")
        if not 0 <= self.top_p <= 1:
            raise UsageError(f"top_p is {self.top_p}; expected a share from 0 to 1 (0 and 1: off)")
        if not 0 <= self.seed <= _MASK64:
            raise UsageError(f"seed is {self.seed}; expected an integer from 0 to {_MASK64}")


def sample(logits: NDArray[np.float32], settings: SamplerSettings, position: int, n_tokens: int) -> int:
    """The id of the next token.

    logits: float32 [V] of one row. position: the place of the row in its sequence; with the seed it keys the draw.
    n_tokens: ids at or above it are padding rows of the model without a token and are never chosen.
    InputError if a logit is NaN or the largest is infinite.
    """
    logits = logits[:n_tokens]
    best = int(np.argmax(logits))  # the first of equal maxima; a NaN counts as larger than all
    if not math.isfinite(logits[best]):
        raise InputError(f"the model gave the logit {logits[best]} for token {best}; its weights may be damaged")
    if settings.temperature == 0 or settings.top_k == 1:
        return best
    kept = _largest(logits, settings.top_k) if 0 < settings.top_k < len(logits) else None
    weights = exp_weights(logits if kept is None else logits[kept], logits[best], settings.temperature)
    u = uniform(settings.seed, position)
    if 0 < settings.top_p < 1:
        nucleus = _nucleus(weights, settings.top_p)
        drawn = int(nucleus[_draw(weights[nucleus], u)])
    else:
        drawn = _draw(weights, u)
    return drawn if kept is None else int(kept[drawn])


def uniform(seed: int, position: int) -> float:
    """A number in [0, 1) of 53 bits, a function of its arguments alone.

    Output `position` of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) whose state starts at the mixed seed.
    """
    return (_mix(_mix(seed + _GAMMA) + (position + 1) * _GAMMA) >> 11) * 2.0**-53


def _mix(state: int) -> int:
    state &= _MASK64
    state = (state ^ state >> 30) * 0xBF58476D1CE4E5B9 & _MASK64
    state = (state ^ state >> 27) * 0x94D049BB133111EB & _MASK64
    return state ^ state >> 31


def _largest(values: NDArray[np.floating], k: int) -> Ids:
    """Indices, ascending, of the k largest; of equal ones the first."""
    kth = np.partition(values, len(values) - k)[len(values) - k]
    above = np.flatnonzero(values > kth)
    equal = np.flatnonzero(values == kth)[: k - len(above)]
    return np.sort(np.concatenate([above, equal]))


def _nucleus(weights: Weights, top_p: float) -> Ids:
    """Indices, ascending, of the fewest tokens whose sum exceeds the share top_p: the most probable, then by id."""
    total = tree_sum(weights)
    # Tokens all below this line together miss less than 1 - top_p, so none of them is needed; 0.99 covers rounding.
    line = 0.99 * (1 - top_p) * total / len(weights)
    descending = np.sort(weights[weights >= line])[::-1]
    reached = int(np.searchsorted(np.cumsum(descending), top_p * total, side="right"))
    return _largest(weights, min(reached + 1, len(descending)))


def _draw(weights: Weights, u: float) -> int:
    """The index where the running sum, added from the first on, first exceeds u times the whole."""
    running = np.cumsum(weights)
    last = int(np.searchsorted(running, running[-1]))  # the first index that reaches the whole
    return min(int(np.searchsorted(running, u * running[-1], side="right")), last)
