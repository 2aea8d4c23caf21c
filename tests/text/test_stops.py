# python -m pytest tests/text/test_stops.py
"""Stop texts spelled over several tokens: nothing of one is shown, nothing else is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllama_py.text.stops import StopWatcher


def watched(pieces: list[str], stops: list[str]) -> tuple[list[str], str | None]:
    watcher = StopWatcher(stops)
    shown = [watcher.feed(piece) for piece in pieces]
    return shown + [watcher.finish()], watcher.met


@pytest.mark.parametrize(
    ("pieces", "stops", "shown", "met"),
    [
        (["Hi", "\n", "\n", "Us", "er", ":", " x"], ["\n\nUser:"], ["Hi"] + [""] * 7, "\n\nUser:"),
        (["Hi", "\n", "\n", "Us", "e it"], ["\n\nUser:"], ["Hi", "", "", "", "\n\nUse it", ""], None),
        (["Hi", "\n\nUser"], ["\n\nUser:"], ["Hi", "", "\n\nUser"], None),
        (["aab"], ["ab"], ["a", ""], "ab"),
        (["a", "a", "b", "c"], ["ab"], ["", "a", "", "", ""], "ab"),
        (["xabcd"], ["bc", "abcd"], ["xa", ""], "bc"),
        (["xabc"], ["bc", "abc"], ["x", ""], "abc"),
        (["ab"], [""], ["ab", ""], None),
        (["ab"], [], ["ab", ""], None),
    ],
)
def test_pieces_give_these_deltas(pieces: list[str], stops: list[str], shown: list[str], met: str | None) -> None:
    assert watched(pieces, stops) == (shown, met)


SHORT = st.text(alphabet="ab", min_size=1, max_size=4)


@given(st.lists(st.text(alphabet="ab", max_size=4), max_size=8), st.lists(SHORT, max_size=3))
def test_any_split_gives_the_same_output(pieces: list[str], stops: list[str]) -> None:
    text = "".join(pieces)
    shown, met = watched(pieces, stops)
    ends = [text.index(stop) + len(stop) for stop in stops if stop in text]
    assert (met is None) == (not ends)
    expected = text[: min(ends) - len(met)] if met else text
    assert "".join(shown) == expected


@given(st.lists(st.text(alphabet="abc", max_size=3), max_size=8), st.lists(SHORT, max_size=3))
def test_all_is_shown_that_cannot_begin_a_stop(pieces: list[str], stops: list[str]) -> None:
    watcher, given_so_far, shown = StopWatcher(stops), "", ""
    for piece in pieces:
        given_so_far += piece
        shown += watcher.feed(piece)
        if watcher.met:
            break
        tails = [given_so_far[i:] for i in range(len(given_so_far))]
        held = next((tail for tail in tails if any(stop.startswith(tail) for stop in stops)), "")
        assert shown + held == given_so_far
