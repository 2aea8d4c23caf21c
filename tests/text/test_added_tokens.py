# python -m pytest tests/text/test_added_tokens.py
"""Which token is meant where several begin, and that any number of them is no burden."""

import re

import pytest

from dllama_py.text.added_tokens import AddedTokens

TEXTS = {5: "<s>", 6: "<s>x", 7: "</s>", 8: "[a]", 9: "<s>", 4: "<s", 3: ""}


@pytest.mark.parametrize(
    ("longest_first", "spans"),
    [(True, [(6, 0, 4), (7, 5, 9), (8, 9, 12)]), (False, [(4, 0, 2), (7, 5, 9), (8, 9, 12)])],
)
def test_the_longest_or_the_lowest(longest_first: bool, spans: list[tuple[int, int, int]]) -> None:
    assert list(AddedTokens(TEXTS, longest_first).spans("<s>xy</s>[a]")) == spans


def test_none_is_found_over_another_but_all_places_are_known() -> None:
    added = AddedTokens({0: "aba", 1: "ba", 2: "^]-\\"}, longest_first=True)
    assert list(added.spans("ababa^]-\\")) == [(0, 0, 3), (1, 3, 5), (2, 5, 9)]
    assert added.starts("ababa^]-\\") == [0, 1, 2, 3, 5]


def test_without_any() -> None:
    assert list(AddedTokens({}, longest_first=True).spans("a")) == []
    assert AddedTokens({}, longest_first=True).starts("a") == []


def test_a_hundred_thousand_are_no_alternation_of_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which takes time, and memory, for every one of them."""
    patterns: list[str] = []
    compile_pattern = re.compile
    monkeypatch.setattr(re, "compile", lambda pattern: patterns.append(pattern) or compile_pattern(pattern))
    added = AddedTokens({id: f"<|{id}|>" for id in range(100_000)}, longest_first=False)
    assert patterns == ["[<]"]
    assert list(added.spans("<|99999|> <|100000|>")) == [(99_999, 0, 9)]
