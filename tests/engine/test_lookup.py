# python -m pytest tests/engine/test_lookup.py
from collections.abc import Sequence
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllama_py.engine.lookup import DOUBT, LONGEST, MOST_PLACES, Lookup

few_ids = st.lists(st.integers(0, 3), max_size=60)


def looked_up(ids: Sequence[int], ahead: Sequence[int] = (), most: int = 4) -> list[int]:
    lookup = Lookup()
    lookup.start(ids)
    return [guess.id for guess in islice(lookup.guesses(ahead), most)]


def searched(text: list[int], n_certain: int, most: int) -> tuple[list[int], int]:
    """By looking at every place: the ids that follow where most of the last ids stand, the latest such place."""
    places = [place for place in range(n_certain) if place < len(text) - 1 and text[place] == text[-1]]
    best, agreeing = 0, 0
    for place in reversed(places[-MOST_PLACES:]):
        n = 1
        while n < LONGEST and n <= place and text[place - n] == text[-1 - n]:
            n += 1
        if n > agreeing:
            best, agreeing = place, n
    found: list[int] = []
    while agreeing and len(found) < most:
        found.append((text + found)[best + 1 + len(found)])
    return found, agreeing


def test_what_followed_the_same_ids_is_guessed() -> None:
    assert looked_up([1, 2, 3, 4, 5, 9, 2, 3]) == [4, 5, 9, 2]


def test_the_place_where_most_ids_agree_wins_over_a_later_one() -> None:
    assert looked_up([1, 2, 3, 7, 9, 3, 8, 1, 2, 3]) == [7, 9, 3, 8]


def test_of_places_where_as_many_agree_the_latest_wins() -> None:
    assert looked_up([2, 7, 2, 8, 5, 2]) == [8, 5, 2, 8]


def test_a_text_that_goes_round_goes_on_like_that() -> None:
    assert looked_up([5, 1, 2, 1, 2], most=5) == [1, 2, 1, 2, 1]
    assert looked_up([4, 4]) == [4, 4, 4, 4]


def test_nothing_is_guessed_behind_an_id_that_is_new() -> None:
    assert looked_up([1, 2, 3]) == looked_up([1]) == looked_up([]) == []


def test_ids_that_nobody_has_confirmed_are_taken_for_granted() -> None:
    assert looked_up([1, 2, 3, 4, 9], ahead=[1, 2]) == [3, 4, 9, 1]
    assert looked_up([1, 2, 3, 4], ahead=[5, 4]) == [5, 4, 5, 4]


def test_chances_grow_with_the_ids_that_agree() -> None:
    lookup = Lookup()
    lookup.start([1, 2, 3, 4, 5, 1, 2])
    assert [guess.chance for guess in islice(lookup.guesses(), 3)] == pytest.approx([2 / 6, 3 / 7, 4 / 8])


def test_a_new_prompt_begins_anew() -> None:
    lookup = Lookup()
    lookup.start([1, 2, 1])
    lookup.start([3, 1])
    assert list(lookup.guesses()) == []


def test_only_the_latest_places_are_looked_at() -> None:
    ids = [6, 1, 7, *[2, 1, 8] * MOST_PLACES, 6, 1]
    assert looked_up(ids, most=1) == [8]
    assert looked_up(ids[:3] + ids[6:], most=1) == [7]


@given(few_ids, few_ids, st.data())
def test_growing_finds_what_a_search_of_all_places_finds(
    prompt: list[int], rest: list[int], data: st.DataObject
) -> None:
    lookup = Lookup()
    lookup.start(prompt)
    ids = list(prompt)
    for id in rest:
        lookup.add(id)
        ids.append(id)
    ahead = data.draw(st.lists(st.integers(0, 3), max_size=5))
    guesses = list(islice(lookup.guesses(ahead), 6))
    found, agreeing = searched(ids + ahead, len(ids), 6)
    assert [guess.id for guess in guesses] == found
    assert [guess.chance for guess in guesses] == [n / (n + DOUBT) for n in range(agreeing, agreeing + len(found))]
