# python -m pytest tests/text/test_stream.py
"""Whole characters only, for byte-level pieces, byte tokens and anything else that yields bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllama_py.text.stream import StreamDecoder

FAMILY = "👨‍👩‍👧"


def streamed(pieces: list[bytes]) -> list[str]:
    decoder = StreamDecoder(pieces.__getitem__)
    return [decoder.feed(i) for i in range(len(pieces))] + [decoder.finish()]


@pytest.mark.parametrize(
    ("pieces", "deltas"),
    [
        ([b"\xf0\x9f", b"\xa6\x99"], ["", "🦙", ""]),
        ([b"\xe6\x97", b"\xa5\xe6", b"\x9c\xac"], ["", "日", "本", ""]),
        ([b"\xf0\x9f"], ["", "\ufffd"]),
        ([b"\xff\x41"], ["\ufffdA", ""]),
        ([b"\xff", b"A"], ["\ufffd", "A", ""]),
        ([b"\xe6", b"A"], ["", "\ufffdA", ""]),
        ([b"a", b"", b"b"], ["a", "", "b", ""]),
    ],
)
def test_pieces_give_these_deltas(pieces: list[bytes], deltas: list[str]) -> None:
    assert streamed(pieces) == deltas


def test_an_emoji_family_byte_by_byte() -> None:
    data = FAMILY.encode()
    assert len(data) == 18
    deltas = streamed([data[i : i + 1] for i in range(18)])
    assert "".join(deltas) == FAMILY
    assert "\ufffd" not in "".join(deltas)


@given(st.lists(st.binary(max_size=5), max_size=12))
def test_joined_deltas_are_the_text_of_all_bytes(pieces: list[bytes]) -> None:
    assert "".join(streamed(pieces)) == b"".join(pieces).decode("utf-8", errors="replace")


def test_the_space_before_the_first_word_is_dropped_once() -> None:
    decoder = StreamDecoder([b"", b" Hi", b" you"].__getitem__, drop_first_space=True)
    assert [decoder.feed(i) for i in (0, 1, 2)] == ["", "Hi", " you"]
