"""How the rooms say how far a long work is; who shows it, and how, they do not know."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """Something that may take long. `total` counts bytes, or what `unit` names; without one only its share is told."""

    title: str
    total: int
    unit: str = "B"


Progress = Callable[[Work, int, str], None]  # a work, how much of it is done, what is being done now


def unwatched(work: Work, done: int, detail: str) -> None:
    """Nobody watches."""
