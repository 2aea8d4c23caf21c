"""From what is known of a row's logits to one token id. Only the root samples.

Every step is a single IEEE operation (add, multiply, divide, compare, exact scaling) in a written order, so the same
logits, seed and position give the same id on every CPU and for every number of ranks. Ties go to the lowest id.
"""

import math
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from dllama_py.engine.exponentials import Weights, exp_weights
from dllama_py.engine.scores import Ask, Candidates, Floats, Scores
from dllama_py.errors import InputError, UsageError
from dllama_py.kernels.keys import MOST_CANDIDATES, id_of, is_finite, logit_of
from dllama_py.settings import check_number, check_real

_MASK64 = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_NUCLEUS_CANDIDATES = 128  # of each rank: at temperature 0.8 and top-p 0.9 a text seldom needs more


@dataclass(frozen=True, slots=True)
class SamplerSettings:
    """What a request wishes; `top_k` 0 and `top_p` 0 or 1 mean off, `temperature` 0 means the largest logit. None
    anywhere: the default."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        for each in fields(self):
            if getattr(self, each.name) is None:
                object.__setattr__(self, each.name, each.default)
        check_real("temperature", self.temperature, 0)
        check_number("top_k", self.top_k, 0)
        check_real("top_p", self.top_p, 0, 1, " (0 and 1: off)")
        check_number("seed", self.seed, 0)
        if self.seed > _MASK64:
            raise UsageError(f"seed is {self.seed}; expected a whole number up to {_MASK64}")

    @property
    def is_greedy(self) -> bool:
        return self.temperature == 0 or self.top_k == 1

    @property
    def has_nucleus(self) -> bool:
        return 0 < self.top_p < 1

    def ask(self, n_tokens: int) -> Ask:
        """What `sample` will want to know first. `n_tokens`: ids at or above it have no token and are never chosen."""
        if self.is_greedy:
            return Ask(n_tokens, 1)
        if self.keeps_few(n_tokens):
            return Ask(n_tokens, min(self.top_k, MOST_CANDIDATES))
        return Ask(n_tokens, _NUCLEUS_CANDIDATES if self.has_nucleus else 1, self.temperature)

    def keeps_few(self, n_tokens: int) -> bool:
        """Whether top_k leaves anything out."""
        return 0 < self.top_k < n_tokens


def sample(scores: Scores, settings: SamplerSettings, position: int) -> int:
    """The id of the next token.

    scores: as asked by `settings.ask`. position: the place of the row in its sequence; with the seed it keys the draw.
    InputError if a logit is NaN or the largest is infinite.
    """
    best = scores.best_key()
    if not is_finite(best):
        raise InputError(
            f"the model gave the logit {logit_of(best)} for token {id_of(best)}; its weights may be damaged"
        )
    if settings.is_greedy:
        return id_of(best)
    logit, u = logit_of(best), uniform(settings.seed, position)
    if settings.keeps_few(scores.ask.n_tokens):
        kept = scores.best_of(settings.top_k)
        weights = exp_weights(kept.logits, logit, settings.temperature)
        if settings.has_nucleus:
            weights = _nucleus(weights, settings.top_p * float(np.cumsum(weights)[-1]))
    elif settings.has_nucleus:
        kept, weights = _nucleus_of_all(scores, settings, logit)
    else:
        return _drawn_of_all(scores, settings, logit, u)
    return int(kept.ids[_draw(weights, u)])


def draw_within(logits: Floats, part: float, temperature: float) -> int:
    """The index at which the running sum of exponentials over a share exceeds that part of it. Not all are -inf."""
    return _draw(exp_weights(logits, float(logits.max()), temperature), part)


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


def _nucleus_of_all(scores: Scores, settings: SamplerSettings, largest: float) -> tuple[Candidates, Weights]:
    """The fewest tokens, the most probable first, whose sum exceeds the share top_p of the whole vocabulary's."""
    total = float(np.cumsum(_share_weights(scores, settings.temperature, largest))[-1])
    goal = settings.top_p * total
    known, are_all = scores.known()
    weights = exp_weights(known.logits, largest, settings.temperature)
    if not are_all and float(np.cumsum(weights)[-1]) <= goal:
        known = scores.down_to(_nucleus_floor(settings, largest, total / scores.ask.n_tokens))
        weights = exp_weights(known.logits, largest, settings.temperature)
    return known, _nucleus(weights, goal)


def _nucleus_floor(settings: SamplerSettings, largest: float, mean: float) -> float:
    """A logit below which no token of the nucleus is.

    Tokens of which each weighs less than 1 - top_p of the mean weight miss less than that share all together, so none
    of them is needed. The margin covers all rounding, the platform's logarithm included.
    """
    missed = 1 - settings.top_p
    if missed < 1e-3:
        return -math.inf
    return largest + settings.temperature * (math.log(missed * mean) - 0.1) - 1e-6 * abs(largest)


def _nucleus(weights: Weights, goal: float) -> Weights:
    """The fewest of the first weights whose running sum exceeds the goal; all if it never does."""
    return weights[: int(np.searchsorted(np.cumsum(weights), goal, side="right")) + 1]


def _drawn_of_all(scores: Scores, settings: SamplerSettings, largest: float, u: float) -> int:
    """A token of the whole vocabulary: first the share is drawn, then what is left of the draw finds it in there."""
    weights = _share_weights(scores, settings.temperature, largest)
    running = np.cumsum(weights)
    share = _draw(weights, u)
    before = float(running[share - 1]) if share else 0.0
    part = (u * float(running[-1]) - before) / float(weights[share])
    return scores.rest.draw(share, min(max(part, 0.0), 1.0))


def _share_weights(scores: Scores, temperature: float, largest: float) -> Weights:
    """Sums of the shares of the vocabulary, float64 [P], relative to the largest logit of all."""
    return exp_weights(scores.shares[:, 0], largest, temperature) * scores.shares[:, 1]


def _draw(weights: NDArray[np.float64], u: float) -> int:
    """The index where the running sum, added from the first on, first exceeds u times the whole."""
    running = np.cumsum(weights)
    last = int(np.searchsorted(running, running[-1]))  # the first index that reaches the whole
    return min(int(np.searchsorted(running, u * running[-1], side="right")), last)
