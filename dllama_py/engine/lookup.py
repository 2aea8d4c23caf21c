"""Guesses by looking back: where the last ids have stood before, the sequence may go on as it did there.

Prompt-lookup decoding (Saxena, 2023): right where a text repeats itself, as when a model quotes, edits or completes
what it was given; it needs no second model.
"""

from collections.abc import Iterator, Sequence

from dllama_py.engine.drafts import Guess

MOST_PLACES = 256  # the latest ones of an id that are looked at: a few dozen microseconds
LONGEST = 32  # ids; agreement beyond them says nothing new
DOUBT = 4  # ids that must agree for the next to be as likely as not, before anything was seen
NOWHERE = -1


class Lookup:
    """An index of one sequence: for each id its last place, for each place the one before that has the same id."""

    guess_s = 0.0

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._last: dict[int, int] = {}
        self._before: list[int] = []

    def start(self, prompt: Sequence[int]) -> None:
        """See `Drafter`."""
        self._ids, self._last, self._before = [], {}, []
        for id in prompt:
            self.add(id)

    def add(self, id: int) -> None:
        """See `Drafter`."""
        self._before.append(self._last.get(id, NOWHERE))
        self._last[id] = len(self._ids)
        self._ids.append(id)

    def guesses(self, ahead: Sequence[int] = ()) -> Iterator[Guess]:
        """The ids that followed the best place, and at their end the guesses themselves, as in a text that goes round.

        The more ids agree, the likelier is the next.
        """
        place, n_agreeing = self._best_place([*self._ids[-LONGEST:], *ahead][-LONGEST:], is_end=not ahead)
        behind = list(ahead)
        while n_agreeing:
            place += 1
            id = self._ids[place] if place < len(self._ids) else behind[place - len(self._ids)]
            behind.append(id)
            yield Guess(id, n_agreeing / (n_agreeing + DOUBT))
            n_agreeing += 1

    def _best_place(self, tail: Sequence[int], is_end: bool) -> tuple[int, int]:
        """Where the id stands up to which most ids agree with the tail, the latest of equals; and how many.

        `is_end`: the tail is the end of the ids, which is no such place.
        """
        best, most = NOWHERE, 0
        place = self._last.get(tail[-1], NOWHERE) if tail else NOWHERE
        if is_end and place != NOWHERE:
            place = self._before[place]
        for _ in range(MOST_PLACES):
            if place == NOWHERE or most == LONGEST:
                break
            if most < len(tail) and most <= place and self._ids[place - most] == tail[-1 - most]:  # it may be better
                n_agreeing = self._agreement(tail, place)
                if n_agreeing > most:
                    best, most = place, n_agreeing
            place = self._before[place]
        return best, most

    def _agreement(self, tail: Sequence[int], place: int) -> int:
        """How many ids up to a place are those at the end of the tail."""
        n = 0
        for id in reversed(tail):
            if n > place or self._ids[place - n] != id:
                break
            n += 1
        return n
