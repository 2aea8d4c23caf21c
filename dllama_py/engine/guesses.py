"""Guesses of the ids to come, in order: which are under way, and how likely each is by what was seen of others.

The chance of a guess is that it is right if all before it are.
"""

from collections.abc import Callable, Sequence
from math import prod

from dllama_py.engine.draft_length import Chances
from dllama_py.engine.drafts import Drafter, Guess

IsWorthAnother = Callable[[Sequence[float]], bool]  # of guesses that have these chances and are not under way


class Guesses:
    """What one drafter guesses; what was learned of it outlives a sequence. `n_sent`: guesses that are under way."""

    def __init__(self, drafter: Drafter) -> None:
        self.n_sent = 0
        self._drafter = drafter
        self._chances = Chances()
        self._made: list[Guess] = []  # those under way, then others, also such as were not worth checking

    @property
    def guess_s(self) -> float:
        """Seconds that one takes; 0 where that is not worth counting."""
        return self._drafter.guess_s

    def start(self, prompt: Sequence[int]) -> None:
        """A sequence begins: these are its first ids."""
        self.clear()
        self._drafter.start(prompt)

    def clear(self) -> None:
        """Nothing is guessed, nothing under way."""
        self._made, self.n_sent = [], 0

    def add(self, id: int) -> bool:
        """The next id is certain. Whether it was under way; if it is not the one that was guessed, all others fall."""
        self._drafter.add(id)
        self._chances.pass_token()
        if not self._made:
            return False
        guess = self._made.pop(0)
        was_sent, is_right = self.n_sent > 0, guess.id == id
        self._chances.observe(guess.chance, is_right)
        self.n_sent -= was_sent
        if not is_right:
            self.clear()
        return was_sent and is_right

    def make(self, most: int, is_worth_another: IsWorthAnother) -> None:
        """Further ones, until so many are there that are not under way, or another is not worth making."""
        source = self._drafter.guesses([guess.id for guess in self._made])
        while len(self._made) - self.n_sent < most and is_worth_another(self.chances):
            guess = next(source, None)
            if guess is None:
                break
            self._made.append(guess)

    @property
    def chance_of_sent(self) -> float:
        """That all that are under way are right."""
        return prod(map(self._chance, self._made[: self.n_sent]))

    @property
    def chances(self) -> list[float]:
        """Of those that are not under way."""
        return [self._chance(guess) for guess in self._made[self.n_sent :]]

    def usual_chance(self) -> float:
        """Of one that is not made yet."""
        return self._chances.usual()

    def send(self, n: int) -> list[int]:
        """The next ids; they are under way now."""
        first, self.n_sent = self.n_sent, self.n_sent + n
        return [guess.id for guess in self._made[first : self.n_sent]]

    def _chance(self, guess: Guess) -> float:
        return self._chances.of(guess.chance)
