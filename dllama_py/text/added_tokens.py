"""Finds tokens that stand beside a vocabulary, such as control tokens, in a text. There may be any number of them.

An alternation of regular expressions takes seconds to compile for a hundred thousand texts; a dictionary does not.
"""

import re
from collections.abc import Iterator, Mapping


class AddedTokens:
    """Texts and their ids. Where several begin at one place the longest is meant, or the one of the lowest id."""

    def __init__(self, texts: Mapping[int, str], longest_first: bool) -> None:
        self._id_of = {text: id for id, text in sorted(texts.items(), reverse=True) if text}  # of equal ones the first
        self._longest_first = longest_first
        lengths: dict[str, set[int]] = {}
        for text in self._id_of:
            lengths.setdefault(text[0], set()).add(len(text))
        self._lengths = {first: sorted(each, reverse=True) for first, each in lengths.items()}
        firsts = "".join(map(re.escape, sorted(lengths)))
        self._first = re.compile(f"[{firsts}]" if firsts else "(?!)")

    def spans(self, text: str) -> Iterator[tuple[int, int, int]]:
        """(id, start, stop) of those in a text, from left to right, none over another."""
        done = 0
        for match in self._first.finditer(text):
            if match.start() >= done and (found := self._at(text, match.start())):
                done = match.start() + len(found)
                yield self._id_of[found], match.start(), done

    def starts(self, text: str) -> list[int]:
        """Every place where one begins, also within another."""
        places = (match.start() for match in self._first.finditer(text))
        return [place for place in places if self._at(text, place)]

    def _at(self, text: str, place: int) -> str:
        """The one that is meant at this place; empty if there is none."""
        candidates = (text[place : place + length] for length in self._lengths[text[place]])
        found = (candidate for candidate in candidates if candidate in self._id_of)
        return next(found, "") if self._longest_first else min(found, key=self._id_of.__getitem__, default="")
