"""Tells a model's thoughts, `<think>...</think>` at the beginning of an answer, from what it says. Knows text only."""

from enum import Enum, auto

OPEN, CLOSE = "<think>", "</think>"

Span = tuple[str, bool]  # text, and whether it is thought


class _Place(Enum):
    START = auto()  # nothing but white space so far
    THOUGHT = auto()
    ANSWER = auto()


class ThoughtSplitter:
    """Cuts a streamed answer into spans; joined they are the answer, with the marks in the thoughts.

    However the answer is cut into pieces, a mark is found whole. After the answer proper has begun a mark is a word
    like any other.
    """

    def __init__(self, *, inside: bool = False) -> None:
        """inside: the prompt has opened the thought already."""
        self._place = _Place.THOUGHT if inside else _Place.START
        self._held = ""

    @property
    def inside(self) -> bool:
        """Whether a thought has begun and not ended."""
        return self._place is _Place.THOUGHT

    def feed(self, text: str) -> list[Span]:
        """The spans that are certain now."""
        self._held += text
        if self._place is _Place.START:
            self._place = _begin(self._held)
        match self._place:
            case _Place.START:
                return []
            case _Place.THOUGHT:
                return self._think()
            case _Place.ANSWER:
                return self.finish()

    def finish(self) -> list[Span]:
        """What was held back, at the end of the answer."""
        held, self._held = self._held, ""
        return [(held, self.inside)] if held else []

    def _think(self) -> list[Span]:
        thought, closed, after = self._held.partition(CLOSE)
        if closed:
            self._place, self._held = _Place.ANSWER, after
            return [(thought + closed, True), *self.finish()]
        n_held = next((n for n in range(len(CLOSE) - 1, 0, -1) if thought.endswith(CLOSE[:n])), 0)
        shown, self._held = thought[: len(thought) - n_held], thought[len(thought) - n_held :]
        return [(shown, True)] if shown else []


def _begin(text: str) -> _Place:
    words = text.lstrip()
    if words.startswith(OPEN):
        return _Place.THOUGHT
    return _Place.START if OPEN.startswith(words) else _Place.ANSWER
