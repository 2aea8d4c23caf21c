# python -m pytest tests/test_completion.py
import pytest

from dllama_py.completion import Finish, FinishReason, Piece, Request, complete
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from tests.support.scripted import ScriptedRunner

END = 15


def run(
    pieces: list[bytes], n_tokens: int = 99, stops: tuple[str, ...] = (), end: bool = True
) -> tuple[list[str], FinishReason]:
    """Texts of all events and the reason, for a model that says these pieces and then the end token."""
    script = [*range(len(pieces)), END, *[0] * 20]
    request = Request([1], SamplerSettings(), n_tokens, {END}, 16, stops)
    events = list(complete(CachedSequence(ScriptedRunner(script), 0), request, [*pieces, *[b""] * 16].__getitem__))
    assert isinstance(events[-1], Finish)
    return [event.text for event in events if isinstance(event, Piece | Finish)], events[-1].reason


def test_the_end_token_is_counted_but_not_shown() -> None:
    assert run([b"Hi", b" there"]) == (["Hi", " there", "", ""], FinishReason.STOP)


def test_the_limit_ends_with_length() -> None:
    assert run([b"a", b"b", b"c"], n_tokens=2) == (["a", "b", ""], FinishReason.LENGTH)


def test_characters_over_several_tokens_come_whole() -> None:
    texts, _ = run([b"\xf0\x9f", b"\xa6\x99", b"\xe6\x97", b"\xa5\xe6", b"\x9c\xac"])
    assert texts[:5] == ["", "\U0001f999", "", "日", "本"]


def test_half_a_character_at_the_limit_is_one_replacement_mark() -> None:
    assert run([b"\xf0\x9f"], n_tokens=1) == (["", "\ufffd"], FinishReason.LENGTH)


@pytest.mark.parametrize(
    ("pieces", "text", "reason"),
    [
        ([b"Hi", b"\n", b"\n", b"Us", b"er", b":", b" x"], "Hi", FinishReason.STOP),
        ([b"Hi", b"\n", b"\n", b"Us", b"e it"], "Hi\n\nUse it", FinishReason.STOP),
    ],
)
def test_stop_texts_over_several_tokens(pieces: list[bytes], text: str, reason: FinishReason) -> None:
    texts, found = run(pieces, stops=("\n\nUser:",))
    assert ("".join(texts), found) == (text, reason)


def test_text_held_for_a_stop_comes_at_the_limit() -> None:
    texts, reason = run([b"Hi", b"\n", b"\n"], n_tokens=3, stops=("\n\nUser:",))
    assert ("".join(texts), reason) == ("Hi\n\n", FinishReason.LENGTH)
