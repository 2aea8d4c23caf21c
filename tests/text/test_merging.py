# python -m pytest tests/text/test_merging.py
"""Merging by score: the highest first, the leftmost of equals, and no work that grows as the square."""

import random
from collections import UserDict
from itertools import pairwise

from dllama_py.text.merging import merge_by_score


def test_the_highest_score_goes_first() -> None:
    assert merge_by_score([b"a", b"b", b"c"], {b"ab": 1.0, b"bc": 2.0}) == [b"a", b"bc"]
    assert merge_by_score([b"a", b"b", b"c"], {b"ab": 2.0, b"bc": 1.0, b"abc": 0.0}) == [b"abc"]
    assert merge_by_score([], {b"ab": 1.0}) == []


def test_the_leftmost_of_equals_goes_first() -> None:
    assert merge_by_score([b"a"] * 5, {b"aa": 1.0}) == [b"aa", b"aa", b"a"]
    assert merge_by_score([b"a"] * 5, {b"aa": 1.0, b"aaa": 1.0}) == [b"aaa", b"aa"]


def naive(symbols: list[bytes], scores: dict[bytes, float]) -> list[bytes]:
    """As distributed-llama does it: look at all pairs before each merge."""
    while True:
        found = [(scores.get(a + b, -1e10), -place) for place, (a, b) in enumerate(pairwise(symbols))]
        best = max(found, default=(-1e10, 0))
        if best[0] == -1e10:
            return symbols
        place = -best[1]
        symbols = [*symbols[:place], symbols[place] + symbols[place + 1], *symbols[place + 2 :]]


def test_the_same_as_looking_at_all_pairs() -> None:
    chance = random.Random(7)
    for _ in range(300):
        words = {bytes(chance.choices(b"abc", k=chance.randint(2, 5))) for _ in range(12)}
        scores = {word: float(chance.randint(-5, 5)) for word in words}
        symbols = [bytes([byte]) for byte in chance.choices(b"abc", k=chance.randint(0, 30))]
        assert merge_by_score(symbols, scores) == naive(symbols, scores)


class Counted(UserDict[bytes, float]):
    """Scores that know how often they were asked for."""

    n_asked = 0

    def get(self, key: bytes, default: float | None = None) -> float | None:  # type: ignore[override]
        self.n_asked += 1
        return super().get(key, default)


def test_a_long_run_of_one_letter_takes_no_quadratic_work() -> None:
    """A pair is looked at once in the beginning, and two after each merge."""
    scores = Counted({b"a" * length: -float(length) for length in range(2, 17)})
    merged = merge_by_score([b"a"] * 100_000, scores)
    assert merged[0] == b"a" * 16 and b"".join(merged) == b"a" * 100_000
    assert scores.n_asked < 3 * 100_000
