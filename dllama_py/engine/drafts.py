"""Guesses of what a model will say next: what makes them, and how they are told. Knows no model and no time.

A guess changes no answer: the model computes guessed ids as rows of one step, each id is drawn as ever, and what was
computed behind the first wrong guess is dropped (fast inference by speculative decoding: Leviathan, Kalman and Matias,
arXiv 2211.17192; draws keyed by position make the check a comparison of ids, at any temperature).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Guess:
    """An id that may come next, and how likely its maker thinks it, from 0 to 1, if the guesses before are right."""

    id: int
    chance: float


class Drafter(Protocol):
    """Follows one sequence and guesses how it goes on."""

    @property
    def guess_s(self) -> float:
        """Seconds that a guess takes; 0 where that is not worth counting."""

    def start(self, prompt: Sequence[int]) -> None:
        """A sequence begins: these are its first ids."""

    def add(self, id: int) -> None:
        """The next id of the sequence is certain."""

    def guesses(self, ahead: Sequence[int] = ()) -> Iterator[Guess]:
        """What may follow the certain ids and, behind these, `ahead`, which nobody has confirmed yet.

        As many as are taken; they may end at any time. Nothing else is called before the last is taken.
        """
