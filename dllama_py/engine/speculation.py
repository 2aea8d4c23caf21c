"""Joins who guesses with who decides how many guesses are checked, and counts what came of it.

The token loop asks for a draft, checks it in one step and tells each id as it becomes certain. Whatever is drafted,
the ids are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from dllama_py.engine.draft_length import HOPELESS, Chances, StepTimes, best_length
from dllama_py.engine.drafts import Drafter, Guess
from dllama_py.engine.step import StepCost

MOST_GUESSES = 15  # checked in one step
PLAIN_EVERY = 64  # steps: one of them is plain, to know what that takes


@dataclass(slots=True)
class Counts:
    """Of one sequence behind its prompt: steps, ids that were checked in them, and how many of these were right."""

    n_steps: int = 0
    n_drafted: int = 0
    n_accepted: int = 0


class Speculating(Protocol):
    """What the token loop needs, and what came of it."""

    @property
    def counts(self) -> Counts: ...

    def start(self, prompt: Sequence[int]) -> None:
        """A sequence begins: these are its first ids."""

    def add(self, id: int) -> None:
        """The next id of the sequence is certain."""

    def draft(self, most: int) -> Sequence[int]:
        """Ids that are worth checking behind the certain ones, `most` at most; often none."""

    def spent(self, cost: StepCost) -> None:
        """What the step took that computed the last certain id and the ids drafted behind it."""


class NoSpeculation:
    """A token a step, and nothing to count."""

    counts = Counts()

    def start(self, prompt: Sequence[int]) -> None:
        """Nothing to be learned."""

    def add(self, id: int) -> None:
        """Nothing to be learned."""

    def draft(self, most: int) -> Sequence[int]:
        return ()

    def spent(self, cost: StepCost) -> None:
        """Nothing to be learned."""


NO_SPECULATION = NoSpeculation()


class Speculation:
    """Drafts as long as they pay, by what guesses and steps have shown so far; what was learned outlives a sequence."""

    def __init__(self, drafter: Drafter) -> None:
        self.counts = Counts()
        self._drafter = drafter
        self._chances = Chances()
        self._times = StepTimes()
        self._pending: list[Guess] = []  # of the ids to come, also those that were not worth checking
        self._n_checked = 0  # of the pending ones
        self._since_plain = 0  # steps

    def start(self, prompt: Sequence[int]) -> None:
        """See `Speculating`."""
        self.counts = Counts()
        self._pending, self._n_checked = [], 0
        self._drafter.start(prompt)

    def add(self, id: int) -> None:
        """See `Speculating`."""
        self._drafter.add(id)
        self._chances.pass_token()
        if not self._pending:
            return
        guess = self._pending.pop(0)
        is_right = guess.id == id
        self._chances.observe(guess.chance, is_right)
        if self._n_checked:
            self._n_checked -= 1
            self.counts.n_accepted += is_right
        if not is_right:
            self._pending, self._n_checked = [], 0

    def draft(self, most: int) -> Sequence[int]:
        """See `Speculating`."""
        self._pending, self._n_checked = [], 0
        if self._times.plain_s is None or self._since_plain >= PLAIN_EVERY:
            return ()
        most = min(most, MOST_GUESSES)
        self._pending = self._bought(most) if self._drafter.guess_s else self._free(most)
        made_s = len(self._pending) * self._drafter.guess_s
        step_s = [made_s + step_s for step_s in self._times.up_to(1 + len(self._pending))]
        self._n_checked = best_length(self._chances_of(self._pending), step_s)
        return [guess.id for guess in self._pending[: self._n_checked]]

    def spent(self, cost: StepCost) -> None:
        """See `Speculating`."""
        if self.counts.n_steps:  # the first one behind a prompt is slower than others
            self._times.observe(cost.n_rows, cost.seconds)
        self._since_plain = 0 if cost.n_rows == 1 else self._since_plain + 1
        self.counts.n_steps += 1
        self.counts.n_drafted += cost.n_rows - 1

    def _free(self, most: int) -> list[Guess]:
        """Guesses that cost nothing, as long as there is hope."""
        guesses: list[Guess] = []
        chance = 1.0
        for guess in islice(self._drafter.guesses(), most):
            guesses.append(guess)
            chance *= self._chances.of(guess.chance)
            if chance < HOPELESS:
                break
        return guesses

    def _bought(self, most: int) -> list[Guess]:
        """Guesses that take time, each only if it may yet be worth checking."""
        guesses: list[Guess] = []
        source = self._drafter.guesses()
        step_s = self._times.up_to(1 + most)
        while len(guesses) < most and self._is_worth_another(guesses, step_s):
            guess = next(source, None)
            if guess is None:
                break
            guesses.append(guess)
        return guesses

    def _is_worth_another(self, made: Sequence[Guess], step_s: Sequence[float]) -> bool:
        """Whether the best draft is longer than what was made, if further guesses are as good as they use to be."""
        n_more = len(step_s) - 1 - len(made)
        chances = self._chances_of(made) + [self._chances.usual()] * n_more
        with_guesses_s = [s + max(n, len(made)) * self._drafter.guess_s for n, s in enumerate(step_s)]
        return best_length(chances, with_guesses_s) > len(made)

    def _chances_of(self, guesses: Sequence[Guess]) -> list[float]:
        return [self._chances.of(guess.chance) for guess in guesses]
