"""Who drafts well, badly or too much."""

from collections.abc import Callable, Iterator, Sequence

from dllama_py.engine.drafts import Guess
from dllama_py.engine.speculation import NoSpeculation


class Written(NoSpeculation):
    """Drafts what is written, however long; only the room is kept."""

    def __init__(self, drafts: Iterator[Sequence[int]]) -> None:
        self._drafts = drafts

    def draft(self, most: int) -> Sequence[int]:
        return next(self._drafts)[:most]


class Daring(NoSpeculation):
    """Knows the answer, is right where `is_right` says so, and sends ahead whenever it is asked, 1 to 5 ids a step."""

    def __init__(self, answer: Sequence[int], is_right: Callable[[int], bool]) -> None:
        self.n_ahead = 0
        self._guesses = [id if is_right(at) else (id + 1) % 8 for at, id in enumerate(answer)]
        self._next = 0  # behind what is certain and what was sent
        self._certain = 0

    def start(self, prompt: Sequence[int]) -> None:
        self._certain = 0

    def add(self, id: int) -> None:
        self._certain += 1

    def draft(self, most: int) -> Sequence[int]:
        self._next = self._certain
        return self._sent(min(most, self._certain % 5))

    def ahead(self, most: int) -> Sequence[int]:
        found = self._sent(min(most, 1 + self._next % 5))
        self.n_ahead += bool(found)
        return found

    def _sent(self, n: int) -> Sequence[int]:
        first, self._next = self._next, min(self._next + n, len(self._guesses))
        return self._guesses[first : self._next]


class Clairvoyant:
    """A drafter that knows the answer, and is right where `is_right` says so."""

    def __init__(self, answer: Sequence[int], is_right: Callable[[int], bool], guess_s: float = 0.0) -> None:
        self.guess_s = guess_s
        self.n_guesses = 0
        self._answer = answer
        self._is_right = is_right
        self._done = 0

    def start(self, prompt: Sequence[int]) -> None:
        self._done = 0

    def add(self, id: int) -> None:
        self._done += 1

    def guesses(self, ahead: Sequence[int] = ()) -> Iterator[Guess]:
        for at in range(self._done + len(ahead), len(self._answer)):
            self.n_guesses += 1
            yield Guess(self._answer[at] if self._is_right(at) else (self._answer[at] + 1) % 8, 0.8)
