# python -m pytest tests/text/test_thinking.py
from itertools import groupby

import pytest

from dllama_py.text.thinking import ThoughtSplitter, message_of


def spans(pieces: list[str], inside: bool = False) -> list[tuple[str, bool]]:
    """Neighbours of a kind joined."""
    splitter = ThoughtSplitter(inside=inside)
    found = [span for piece in pieces for span in splitter.feed(piece)] + splitter.finish()
    return [("".join(text for text, _ in run), kind) for kind, run in groupby(found, key=lambda span: span[1])]


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_thought_and_answer_however_cut(size: int) -> None:
    text = "\n<think>a < b </thin</think>\n\nIt is <think>."
    pieces = [text[i : i + size] for i in range(0, len(text), size)]
    assert spans(pieces) == [("\n<think>a < b </thin</think>", True), ("\n\nIt is <think>.", False)]


def test_the_prompt_may_have_opened_the_thought() -> None:
    assert spans(["Hm", "</thi", "nk>", "Yes"], inside=True) == [("Hm</think>", True), ("Yes", False)]


@pytest.mark.parametrize("text", ["<thank you", "<thi", " ", "x<think>y</think>"])
def test_an_answer_without_thoughts_is_shown_in_full(text: str) -> None:
    assert spans(list(text)) == [(text, False)]


def test_an_answer_is_not_held_back_once_it_has_begun() -> None:
    splitter = ThoughtSplitter()
    assert [splitter.feed(piece) for piece in ("Hi", " <", "</th")] == [
        [("Hi", False)],
        [(" <", False)],
        [("</th", False)],
    ]


def test_a_thought_that_has_not_ended_is_known() -> None:
    splitter = ThoughtSplitter()
    splitter.feed("<think>so")
    assert splitter.inside
    splitter.feed("</think>")
    assert not splitter.inside


@pytest.mark.parametrize("size", [1, 2, 7, 200])
def test_channels_before_the_final_one_are_thoughts(size: int) -> None:
    thought = "<|channel|>analysis<|message|>France's <|end|><|start|>assistant<|channel|>final<|message|>"
    pieces = [(thought + "Paris <|channel|>.")[i : i + size] for i in range(0, len(thought) + 18, size)]
    assert spans(pieces) == [(thought, True), ("Paris <|channel|>.", False)]
    assert spans(["<|channel|>fin", "al<|message|>Paris"]) == [("<|channel|>final<|message|>", True), ("Paris", False)]


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("<think>a</think>b", {"content": "<think>a</think>b"}),
        ("<think>a", {"content": "<think>a</think>"}),
        ("plain", {"content": "plain"}),
        (
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
            {"thinking": "a", "content": "b"},
        ),
        ("<|channel|>analysis<|message|>cut sho", {"thinking": "cut sho", "content": ""}),
        ("<|channel|>final<|message|>b", {"thinking": "", "content": "b"}),
    ],
)
def test_an_answer_goes_back_to_the_template(said: str, message: dict[str, str]) -> None:
    assert message_of(said, False) == message
