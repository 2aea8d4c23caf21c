# python -m pytest tests/cluster/test_line_editor.py
"""What a user types at a terminal becomes lines of the conversation."""

from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from dllama_py.cluster.line_editor import line_editor
from dllama_py.cluster.terminal import is_open, unquoted
from dllama_py.cluster.word_wrap import WordWrap

PASTED = "\x1b[200~{}\x1b[201~"
ALT_ENTER = "\x1b\r"
UP = "\x1b[A"


def typed(history: Path, *keys: str) -> list[str]:
    """What each call of the prompt gives for these keys."""
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        lines = []
        for each in keys:
            pipe.send_text(each)
            lines.append(line_editor(history).prompt("> "))
        return lines


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("Hi\r", "Hi"),
        (PASTED.format("one\ntwo\r\nthree") + "\r", "one\ntwo\nthree"),
        (PASTED.format("one\n") + "and more\r", "one\nand more"),
        (f"one{ALT_ENTER}two\r", "one\ntwo"),
        ('"""one\rtwo"""\r', '"""one\ntwo"""'),
    ],
)
def test_several_lines_are_one_question(tmp_path: Path, keys: str, line: str) -> None:
    assert typed(tmp_path / "history", keys) == [line]


def test_what_was_typed_is_offered_again(tmp_path: Path) -> None:
    history = tmp_path / "home" / "history"
    assert typed(history, "Hello\r", f"{UP}\r") == ["Hello", "Hello"]
    assert "Hello" in history.read_text()


def test_a_history_that_cannot_be_kept_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert typed(tmp_path / "file" / "history", "Hi\r") == ["Hi"]


@pytest.mark.parametrize(
    ("line", "text", "open_still"),
    [
        ("a", "a", False),
        ('"""a', '"""a', True),
        ('"""', '"""', True),
        ('"""a\nb"""', "a\nb", False),
        ('"""\na\n"""', "a", False),
        ('""""""', "", False),
        ('say """this"""', 'say """this"""', False),
    ],
)
def test_quotes_around_several_lines(line: str, text: str, open_still: bool) -> None:
    assert (unquoted(line), is_open(line)) == (text, open_still)


def shown(pieces: list[str], n_columns: int) -> list[str]:
    """The lines on a terminal, which knows backspace and line end."""
    wrap, lines, column = WordWrap(), [""], 0
    for letter in "".join(wrap.feed(piece, n_columns) for piece in pieces):
        if letter == "\n":
            lines.append("")
            column = 0
        elif letter == "\b":
            column -= 1
        else:
            lines[-1] = lines[-1][:column] + letter + lines[-1][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("one two three", ["one two", "three"]),
        ("one\ntwo three four", ["one", "two three", "four"]),
        ("abcdefghijklmnop", ["abcdefghi", "jklmnop"]),
        ("ab abcdefghijklmnop", ["ab", "abcdefghi", "jklmnop"]),
        ("123456789 x", ["123456789", "x"]),
        ("\u4f60\u597d\u4f60\u597d\u4f60\u597d", ["\u4f60\u597d\u4f60\u597d", "\u4f60\u597d"]),
    ],
)
def test_words_break_at_the_edge_however_they_come(text: str, lines: list[str]) -> None:
    assert shown([text], 10) == shown(list(text), 10) == lines
