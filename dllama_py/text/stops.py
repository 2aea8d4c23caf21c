"""Stop texts that may be spelled over several tokens. Knows text only: no ids, no end tokens."""

from collections.abc import Iterable


class StopWatcher:
    """Passes text on, up to the first stop text, and never shows a part of one.

    However the text is cut into pieces, the joined output is the same: all of it, or all before the stop text that
    is complete first (of two complete at the same character, the one that begins earlier).
    """

    def __init__(self, stops: Iterable[str] = ()) -> None:
        """Empty stop texts are ignored."""
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.met: str | None = None  # the stop text that ended the output

    def feed(self, text: str) -> str:
        """The text that can be shown now; nothing once a stop text was met."""
        if not self._stops:
            return text
        shown = [self._step(character) for character in text]
        return "".join(shown)

    def finish(self) -> str:
        """The text still held back, at the end of the output."""
        held, self._held = self._held, ""
        return held

    def _step(self, character: str) -> str:
        if self.met is not None:
            return ""
        self._held += character
        complete = [stop for stop in self._stops if self._held.endswith(stop)]
        if complete:
            self.met = max(complete, key=len)
            shown, self._held = self._held.removesuffix(self.met), ""
            return shown
        return self._release()

    def _release(self) -> str:
        """Shows all but the longest tail that could begin a stop text."""
        for start in range(len(self._held)):
            tail = self._held[start:]
            if any(stop.startswith(tail) for stop in self._stops):
                shown, self._held = self._held[:start], tail
                return shown
        shown, self._held = self._held, ""
        return shown
