"""Joins who guesses with who decides how many guesses are checked, and counts what came of it.

The token loop asks for a draft, checks it in one step and tells each id as it becomes certain. While a step is under
way in a pipeline it may ask for more, and sends that ahead as a further step, which goes on as if all before it were
right. Whatever is drafted, the ids are the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Protocol

from dllama_py.engine.ahead import AheadShares
from dllama_py.engine.draft_length import HOPELESS, StepTimes, best_length, nothing_saved
from dllama_py.engine.drafts import Drafter
from dllama_py.engine.guesses import Guesses

MOST_GUESSES = 15  # checked in one step
PLAIN_EVERY = 64  # steps: one of them is plain, to know what that takes


@dataclass(slots=True)
class Counts:
    """Of one sequence behind its prompt: steps, ids that were checked in them, and how many of these were right; steps
    that were sent ahead in vain, which are not among the others.
    """

    n_steps: int = 0
    n_drafted: int = 0
    n_accepted: int = 0
    n_cancelled: int = 0


class Speculating(Protocol):
    """What the token loop needs, and what came of it."""

    @property
    def counts(self) -> Counts: ...

    @property
    def plain_s(self) -> float | None:
        """Seconds of a step without any guess, lately; None if that is not known."""

    def start(self, prompt: Sequence[int]) -> None:
        """A sequence begins: these are its first ids."""

    def add(self, id: int) -> None:
        """The next id of the sequence is certain."""

    def draft(self, most: int) -> Sequence[int]:
        """Ids that are worth checking behind the certain ones, `most` at most; often none."""

    def ahead(self, most: int) -> Sequence[int]:
        """Ids behind all that are under way, that are worth a step before these are verified; often none."""

    def spent(self, n_rows: int, seconds: float) -> None:
        """The oldest step under way had so many rows and took so long, from the one before it if that was later."""


class NoSpeculation:
    """A token a step, and nothing to count."""

    counts = Counts()
    plain_s: float | None = None

    def start(self, prompt: Sequence[int]) -> None:
        """Nothing to be learned."""

    def add(self, id: int) -> None:
        """Nothing to be learned."""

    def draft(self, most: int) -> Sequence[int]:
        return ()

    def ahead(self, most: int) -> Sequence[int]:
        return ()

    def spent(self, n_rows: int, seconds: float) -> None:
        """Nothing to be learned."""


NO_SPECULATION = NoSpeculation()


class Speculation:
    """Drafts as long as they pay, by what guesses and steps have shown so far; what was learned outlives a sequence."""

    def __init__(self, drafter: Drafter) -> None:
        self.counts = Counts()
        self._guesses = Guesses(drafter)
        self._times = StepTimes()
        self._shares = AheadShares()
        self._since_plain = 0  # steps
        self._n_first = 0  # rows of the last step that was not sent ahead
        self._awaits_first = False  # it is under way
        self._n_ahead = 0  # steps under way that were sent ahead
        self._has_room = False  # for steps ahead, when it was last of interest
        self._is_alone = True  # no step that was sent ahead has met the last one that was not

    @property
    def plain_s(self) -> float | None:
        """See `Speculating`."""
        return self._times.plain_s

    def start(self, prompt: Sequence[int]) -> None:
        """See `Speculating`."""
        self.counts = Counts()
        self._n_ahead = 0
        self._guesses.start(prompt)

    def add(self, id: int) -> None:
        """See `Speculating`."""
        self._shares.pass_token()
        self.counts.n_accepted += self._guesses.add(id)

    def draft(self, most: int) -> Sequence[int]:
        """See `Speculating`. Whatever is under way has become void."""
        self.counts.n_cancelled += self._n_ahead
        self._is_alone, self._awaits_first, self._n_ahead = self._n_ahead == 0, True, 0
        self._guesses.clear()
        n = 0
        if not self._must_be_plain:
            self._guesses.make(min(most, MOST_GUESSES), self._is_worth_another)
            chances = self._guesses.chances
            n = self._best_length(chances, len(chances))
        self._n_first, self._has_room = 1 + n, False
        return self._guesses.send(n)

    def ahead(self, most: int) -> Sequence[int]:
        """See `Speculating`. None behind a step of which nobody knows yet what it takes by itself."""
        chance, self._has_room = self._guesses.chance_of_sent, True
        if most < 1 or self._must_be_plain or not self._times.knows(self._n_first) or not self._shares.saved(chance):
            return ()
        self._guesses.make(min(most, 1 + MOST_GUESSES), self._is_worth_another_ahead)
        first, *others = self._guesses.chances[:most] or [0.0]
        if not self._shares.saved(chance * first):
            return ()
        self._n_ahead, self._is_alone = self._n_ahead + 1, False
        return self._guesses.send(1 + self._best_length(others, len(others)))

    def spent(self, n_rows: int, seconds: float) -> None:
        """See `Speculating`."""
        was_first, self._awaits_first = self._awaits_first, False
        self._n_ahead -= not was_first
        self._times.pass_step()
        if self.counts.n_steps:  # the first one behind a prompt is slower than others
            self._learn(was_first, n_rows, seconds)
        self._since_plain = 0 if self._is_alone and n_rows == 1 else self._since_plain + 1
        self.counts.n_steps += 1
        self.counts.n_drafted += n_rows - was_first

    def _learn(self, was_first: bool, n_rows: int, seconds: float) -> None:
        if was_first and self._is_alone:
            self._times.observe(n_rows, seconds)
        elif self._times.plain_s is not None and self._times.knows(n_rows):
            share = seconds / self._times.of(n_rows)
            (self._shares.observe_leading if was_first else self._shares.observe_following)(share)

    @property
    def _must_be_plain(self) -> bool:
        """To know what that takes."""
        return self._times.plain_s is None or self._since_plain >= PLAIN_EVERY

    def _best_length(self, chances: Sequence[float], n_made: int) -> int:
        """How many guesses to check behind an id, supposed that it is right, if so many of them are made already."""
        guess_s = self._guesses.guess_s
        step_s = [s + max(n, n_made) * guess_s for n, s in enumerate(self._times.up_to(1 + len(chances)))]
        return best_length(chances, step_s, self._shares.saved if self._has_room else nothing_saved)

    def _is_worth_another_ahead(self, made: Sequence[float]) -> bool:
        return not made or self._is_worth_another(made[1:])

    def _is_worth_another(self, made: Sequence[float]) -> bool:
        """Of guesses that cost nothing, while there is hope; else whether the best draft is longer than what was made,
        if further guesses are as good as they use to be.
        """
        if not self._guesses.guess_s:
            return prod(made) >= HOPELESS
        usual = [self._guesses.usual_chance()] * (MOST_GUESSES - len(made))
        return self._best_length([*made, *usual], len(made)) > len(made)
