"""Keeps words of users from being read as control tokens, without changing what a chat template sees of other words.

Before rendering, each control token spelled in a user's text, and each fragment at its ends that could be completed
to one, is broken by a character that occurs nowhere else. Control tokens are looked for in the rendered text as it
is, so only the template can yield them; the text between them is encoded without the breaks and with control tokens
off. Every other token is the one that the plain rendering as a whole would get.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any

from dllama_py.errors import InputError
from dllama_py.text.tokenizer import Tokenizer

_PRIVATE_USE = [chr(code) for code in range(0xF8FF, 0xDFFF, -1)]


class Shield:
    """For one prompt: cover what users say, render, then encode."""

    def __init__(self, tokenizer: Tokenizer, known: Iterable[Any]) -> None:
        """known: everything that may get into the prompt; the breaking character is one that none of it holds."""
        self._tokenizer = tokenizer
        self._controls = tokenizer.control_index
        used = set().union(*_strings(list(known)))
        unused = [character for character in _PRIVATE_USE if character not in used]
        if not unused:
            raise InputError("the chat messages hold every character of U+E000 to U+F8FF; leave at least one out")
        self._break = unused[0]

    def cover(self, value: Any) -> Any:
        """The same value with every text in it, at any depth, made harmless.

        A name (a role, a kind, a key) is broken only if it spells a whole control token, for templates compare names
        and build their own tokens of them; what stands under `content` is never taken for a name.
        """
        if isinstance(value, str):
            return self._broken(value, self._whole(value) if value.isidentifier() else self._places(value))
        if isinstance(value, dict):
            return {self.cover(key): self._covered_item(key, item) for key, item in value.items()}
        return [self.cover(item) for item in value] if isinstance(value, list | tuple) else value

    def _covered_item(self, key: Any, item: Any) -> Any:
        if key == "content" and isinstance(item, str):
            return self._broken(item, self._places(item))
        return self.cover(item)

    def encode(self, rendered: str) -> list[int]:
        """Ids of a rendered prompt, without a begin token of the tokenizer's own.

        The unknown token is a control token too, but where it stands for a character nobody has spelled it.
        """
        if self._break not in rendered:
            return self._tokenizer.encode(rendered, bos=False)
        ids: list[int] = []
        done = 0
        for id, (start, stop) in self._tokenizer.spans(rendered):
            if self._tokenizer.is_special(id) and self._tokenizer.token_text(id) in rendered[start:stop]:
                ids += [*self._plain(rendered[done:start], done), id]
                done = stop
        return ids + self._plain(rendered[done:], done)

    def _plain(self, text: str, place: int) -> list[int]:
        """Ids of the words that stand at this place of the prompt."""
        spans = self._tokenizer.spans(text.replace(self._break, ""), special=False, is_start=place == 0)
        return [id for id, _ in spans]

    def _broken(self, text: str, places: set[int]) -> str:
        edges = [0, *sorted(places), len(text)]
        return self._break.join(text[start:stop] for start, stop in pairwise(edges))

    def _whole(self, text: str) -> set[int]:
        return {start + 1 for start in self._controls.starts(text)}

    def _places(self, text: str) -> set[int]:
        """Where to break: in control tokens, and where one could arise with what stands before and after the text.

        Templates may trim white space, so the ends are those of the words.
        """
        begin, end = len(text) - len(text.lstrip()), len(text.rstrip())
        words = text[begin:end]
        if not words:
            return set()
        opened = {start + 1 for start in self._controls.open_starts(text, end) if start >= begin}
        places = self._whole(text) | opened
        return places | {begin} if self._controls.is_part(words) else places


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from _strings([*value.keys(), *value.values()])
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
