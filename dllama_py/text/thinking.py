"""Tells a model's thoughts at the beginning of an answer from what it says. Knows text only.

Most models write `<think>...</think>`. Those of the harmony format (gpt-oss) speak in channels: everything is thought
up to the beginning of the channel that is called final, which may be the first.
"""

from enum import Enum, auto

OPEN, CLOSE = "<think>", "</think>"
CHANNEL, FINAL = "<|channel|>", "<|channel|>final<|message|>"
_ANALYSIS, _END = "<|channel|>analysis<|message|>", "<|end|>"
_CLOSES = {OPEN: CLOSE, CHANNEL: FINAL}

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
        self.close = CLOSE  # what ends a thought that has begun
        self._held = ""

    @property
    def inside(self) -> bool:
        """Whether a thought has begun and not ended."""
        return self._place is _Place.THOUGHT

    def feed(self, text: str) -> list[Span]:
        """The spans that are certain now."""
        self._held += text
        if self._place is _Place.START:
            self._begin()
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
        close = self.close
        thought, closed, after = self._held.partition(close)
        if closed:
            self._place, self._held = _Place.ANSWER, after
            return [(thought + closed, True), *self.finish()]
        n_held = next((n for n in range(len(close) - 1, 0, -1) if thought.endswith(close[:n])), 0)
        shown, self._held = thought[: len(thought) - n_held], thought[len(thought) - n_held :]
        return [(shown, True)] if shown else []

    def _begin(self) -> None:
        words = self._held.lstrip()
        for mark, close in _CLOSES.items():
            if words.startswith(mark):
                self._place, self.close = _Place.THOUGHT, close
                return
        if not any(mark.startswith(words) for mark in _CLOSES):
            self._place = _Place.ANSWER


def message_of(said: str, inside: bool) -> dict[str, str]:
    """An answer as a template wants it back. A thought that was cut short is closed, or it would be taken for the
    answer; templates of channels take thought and answer without their marks. `inside`: as of ThoughtSplitter.
    """
    splitter = ThoughtSplitter(inside=inside)
    spans = [*splitter.feed(said), *splitter.finish()]
    if splitter.close == CLOSE:
        return {"content": said + CLOSE if splitter.inside else said}
    thought, answer = ("".join(text for text, is_thought in spans if is_thought == kind) for kind in (True, False))
    return {"thinking": thought.partition(_ANALYSIS)[2].partition(_END)[0], "content": answer}
