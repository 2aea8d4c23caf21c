"""Token pieces to text while they arrive: whole characters only. Knows bytes, not vocabularies or stop texts."""

import codecs
from collections.abc import Callable


class StreamDecoder:
    """Decodes one sequence. The joined output equals decoding all bytes at once with errors replaced."""

    def __init__(self, piece: Callable[[int], bytes], *, drop_first_space: bool = False) -> None:
        """piece: the bytes of a token. drop_first_space: the vocabulary writes a space before the first word."""
        self._piece = piece
        self._utf8 = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._drop_space = drop_first_space

    def feed(self, token: int) -> str:
        """The characters that this token completes; may be empty."""
        return self._trimmed(self._utf8.decode(self._piece(token)))

    def finish(self) -> str:
        """What remains: one U+FFFD for an incomplete character, else nothing."""
        return self._trimmed(self._utf8.decode(b"", final=True))

    def _trimmed(self, text: str) -> str:
        if self._drop_space and text:
            self._drop_space = False
            return text.removeprefix(" ")
        return text
