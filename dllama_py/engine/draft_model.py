"""Guesses by a small model that has the vocabulary of the large one.

It draws with the keys of the large one: both are moved by the same number at each position, so that also at a
temperature they often say the same (the draws are coupled, not independent).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dllama_py.engine.drafts import Guess
from dllama_py.engine.exponentials import exp_weights
from dllama_py.engine.sampler import SamplerSettings, sample
from dllama_py.engine.scores import Scores
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.step import Steps

SUPPOSED_S = 1e-6  # of a guess before one was measured
BLEND = 0.2  # share of a new measurement
UNLIKELY = 0.05  # chance of an id that is not among the candidates


class DraftModel:
    """Follows a sequence in a slot of its own; computes nothing before it is asked."""

    def __init__(self, runner: Steps, settings: SamplerSettings, n_tokens: int, slot: int = 0) -> None:
        self.guess_s = SUPPOSED_S
        self._sequence = CachedSequence(runner, slot)
        self._context = runner.context
        self._ids: list[int] = []
        self.draw_as(settings, n_tokens)

    def draw_as(self, settings: SamplerSettings, n_tokens: int) -> None:
        """As the large model does from now on. `n_tokens`: ids below may be drawn, and are known to both."""
        self._settings = settings
        temperature = 1.0 if settings.is_greedy else settings.temperature
        self._ask = replace(settings.ask(n_tokens), temperature=temperature)

    def start(self, prompt: Sequence[int]) -> None:
        """See `Drafter`."""
        self._ids = list(prompt)
        held = self._sequence.ids
        self._sequence.cut(_n_common(held, self._ids))

    def add(self, id: int) -> None:
        """See `Drafter`."""
        at, held = len(self._ids), self._sequence.ids
        if at < len(held) and held[at] != id:
            self._sequence.cut(at)
        self._ids.append(id)

    def guesses(self, ahead: Sequence[int] = ()) -> Iterator[Guess]:
        """See `Drafter`. None behind a sequence that is too long for the small model or has ids that it lacks."""
        rest = self._rest(ahead)
        if len(self._ids) + len(ahead) > self._context or max(rest) >= self._ask.n_tokens:
            return
        *_, step = self._sequence.feed(rest, ask=self._ask)
        while True:
            (scores,) = step.scores
            id = sample(scores, self._settings, len(self._sequence.ids) - 1)
            yield Guess(id, _chance(scores, id))
            if self._sequence.room == 0:
                return
            (step,) = self._sequence.feed([id], ask=self._ask)
            known_s = self.guess_s if self.guess_s > SUPPOSED_S else step.cost.seconds
            self.guess_s = known_s + BLEND * (step.cost.seconds - known_s)

    def _rest(self, ahead: Sequence[int]) -> list[int]:
        """What is not computed yet, the last id in any case; forgets what was computed behind other ids."""
        n, held = len(self._ids), self._sequence.ids
        if len(held) < n:
            return [*self._ids[len(held) :], *ahead]
        n_agreeing = min(n + _n_common(held[n:], ahead), n + len(ahead) - 1)
        self._sequence.cut(n_agreeing)
        return [*self._ids[n_agreeing:], *ahead[max(n_agreeing - n, 0) :]]


def _n_common(held: Sequence[int], ids: Sequence[int]) -> int:
    """Of how many ids both beginnings are the same."""
    n = 0
    while n < min(len(held), len(ids)) and held[n] == ids[n]:
        n += 1
    return n


def _chance(scores: Scores, id: int) -> float:
    """The share of an id in the sum over the vocabulary, at the temperature of that sum."""
    temperature = scores.ask.temperature
    known, _ = scores.known()
    (found,) = np.nonzero(known.ids == id)
    if not len(found):
        return UNLIKELY
    largest = float(known.logits[0])
    weight = float(exp_weights(known.logits[found], largest, temperature)[0])
    return weight / float(exp_weights(scores.shares[:, 0], largest, temperature) @ scores.shares[:, 1])
