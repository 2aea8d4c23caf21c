# python -m pytest tests/cli/test_speculating.py
"""What is told of speculation, from steps whose times are written down."""

import argparse

from dllama_py.cli.record import Record
from dllama_py.cli.speculating import speculation_figures, speculation_note, speculation_summary
from dllama_py.completion import Piece
from dllama_py.engine.speculation import NO_SPECULATION, Counts, NoSpeculation
from dllama_py.engine.step import StepCost
from dllama_py.engine.token_loop import Token

ARGUMENTS = argparse.Namespace(speculate="lookup", draft=None)


def cost(n_rows: int) -> StepCost:
    return StepCost(0.5, 0.5, 0.0, 0, 0, n_rows)


def record_of(*tokens: tuple[float, int]) -> Record:
    """Of each token the time it came and the rows of its step, 0 if another token has borne the step's cost."""
    record = Record(started_s=0.0)
    for at_s, n_rows in tokens:
        record.add(Piece(Token(7, cost(n_rows), at_s), ""))
    return record


class Counted(NoSpeculation):
    counts = Counts(n_steps=4, n_drafted=5, n_accepted=2, n_cancelled=3)
    plain_s = 1.0


class NeverPlain(Counted):
    plain_s = None


RECORD = record_of((1.0, 9), (2.0, 1), (3.5, 4), (3.5, 0), (3.5, 0), (4.5, 1), (6.0, 3))


def test_acceptance_tokens_a_step_and_speed_up() -> None:
    """Six tokens behind the first took five seconds, plain ones take one."""
    assert speculation_figures(ARGUMENTS, Counted(), RECORD) == {
        "speculation": "lookup",
        "acceptance": 0.4,
        "tokens_per_step": 1.5,
        "cancelled_steps": 3,
        "speculation_speed_up": 1.2,
    }
    assert speculation_summary(Counted(), RECORD).splitlines() == [
        "",
        "Speculation",
        "   accepted: 2 of 5",
        "tokens/step: 1.50",
        "  cancelled: 3 steps that were sent ahead",
        "   speed-up: 1.20",
    ]
    assert speculation_note(Counted(), RECORD) == ", 1.5 tokens a step"


def test_without_a_plain_step_there_is_nothing_to_compare_with() -> None:
    assert speculation_figures(ARGUMENTS, NeverPlain(), RECORD)["speculation_speed_up"] is None
    assert speculation_summary(NeverPlain(), RECORD).endswith("speed-up: -")


def test_nothing_is_told_where_nothing_was_guessed() -> None:
    assert speculation_summary(NO_SPECULATION, RECORD) == speculation_note(NO_SPECULATION, RECORD) == ""
    figures = speculation_figures(argparse.Namespace(speculate=None, draft=None), NO_SPECULATION, RECORD)
    assert figures.pop("speculation") == "off"
    assert set(figures.values()) == {None}
