"""Finds tokens that stand beside a vocabulary, such as control tokens, in a text. There may be any number of them.

An alternation of regular expressions takes seconds to compile for a hundred thousand texts; a dictionary does not.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_SPACE = r"[^\S\x1c-\x1f]"  # as Unicode and the `tokenizers` library have it
_SPACES = re.compile(f"{_SPACE}*")
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a token does with its neighbours: swallows white space on its left or right; is none within a word."""

    lstrip: bool = False
    rstrip: bool = False
    single_word: bool = False


_PLAIN = Surroundings()


class AddedTokens:
    """Texts and their ids. Where several begin at one place the longest is meant, or the one of the lowest id."""

    def __init__(
        self, texts: Mapping[int, str], longest_first: bool, surroundings: Mapping[int, Surroundings] | None = None
    ) -> None:
        """surroundings: of the ids for which they are not plain."""
        self._id_of = {text: id for id, text in sorted(texts.items(), reverse=True) if text}  # of equal ones the first
        self._longest_first = longest_first
        self._surroundings = surroundings or {}
        lengths: dict[str, set[int]] = {}
        for text in self._id_of:
            lengths.setdefault(text[0], set()).add(len(text))
        self._lengths = {first: sorted(each, reverse=True) for first, each in lengths.items()}
        firsts = "".join(map(re.escape, sorted(lengths)))
        self._first = re.compile(f"[{firsts}]" if firsts else "(?!)")

    def spans(self, text: str) -> Iterator[tuple[int, int, int]]:
        """(id, start, stop) of those in a text, with the white space that they swallow, from left to right, none over
        another.
        """
        done = found_to = 0
        for match in self._first.finditer(text):
            place = match.start()
            if place < found_to or not (found := self._at(text, place)):
                continue
            found_to, id = place + len(found), self._id_of[found]
            surroundings = self._surroundings.get(id, _PLAIN)
            if surroundings.single_word and _is_within_a_word(text, place, found_to):
                continue
            start = max(_spaces_before(text, place), done) if surroundings.lstrip else max(place, done)
            done = _spaces_after(text, found_to) if surroundings.rstrip else found_to
            yield id, start, done

    def starts(self, text: str) -> list[int]:
        """Every place where one begins, also within another."""
        places = (match.start() for match in self._first.finditer(text))
        return [place for place in places if self._at(text, place)]

    def _at(self, text: str, place: int) -> str:
        """The one that is meant at this place; empty if there is none."""
        candidates = (text[place : place + length] for length in self._lengths[text[place]])
        found = (candidate for candidate in candidates if candidate in self._id_of)
        return next(found, "") if self._longest_first else min(found, key=self._id_of.__getitem__, default="")


def _is_within_a_word(text: str, start: int, stop: int) -> bool:
    return bool(_WORD.match(text[start - 1 : start]) or _WORD.match(text[stop : stop + 1]))


def _spaces_before(text: str, place: int) -> int:
    start = place
    while start and _SPACES.fullmatch(text[start - 1]):
        start -= 1
    return start


def _spaces_after(text: str, place: int) -> int:
    found = _SPACES.match(text, place)
    return place if found is None else found.end()
