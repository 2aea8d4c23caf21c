# python -m pytest tests/engine/test_recall.py
"""What the root and a leader do about steps that were sent ahead in vain, with nobody at the other ends."""

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from dllama_py.engine.chain import Chain
from dllama_py.engine.leader import Ways, _Leader
from dllama_py.engine.pipeline import step_words
from dllama_py.engine.protocol import Message
from dllama_py.engine.stage import NOTHING
from dllama_py.model.rank_model import Step
from dllama_py.transport.hop import HopTraffic

STEP = Step([0], [5], [0], 1, [8], [0.0])


@dataclass
class Letter:
    kind: int
    step: int
    words: np.ndarray
    rows: np.ndarray = field(default_factory=lambda: np.zeros((1, 4), np.float32))


class Ends:
    """Every end at once: keeps what is sent, gives what was put in."""

    def __init__(self) -> None:
        self.traffic = HopTraffic()
        self.sent: list[tuple[int, int, list[int]]] = []
        self.told: list[list[int]] = []
        self.coming: deque[Letter] = deque()

    def send(self, kind: int, step: int, words: np.ndarray, more: Any = 0) -> None:
        self.sent.append((kind, step, words.tolist()))

    def tell(self, steps: list[int]) -> None:
        self.told.append(list(steps))

    def receive(self) -> Letter:
        return self.coming.popleft()

    def has_message(self) -> bool:
        return bool(self.coming)

    def close(self) -> None:
        self.told.append([])


def answer(step: int, candidate: int) -> Letter:
    return Letter(Message.ANSWER, step, np.array([10**9, 1, candidate, 0, 0], np.int64))


def void(step: int) -> Letter:
    return Letter(Message.ANSWER, step, np.zeros(2, np.int64))


def test_answers_to_void_steps_are_dropped_computed_or_not() -> None:
    ends = Ends()
    chain = Chain(ends, ends, ends, leaders=[1, 2], n_last=1)
    for _ in range(4):
        chain.send(STEP, 0.0)
    assert not chain.has_answer()
    ends.coming.append(answer(1, 71))
    assert chain.has_answer()
    chain.recall([2, 3])
    assert ends.told == [[2, 3]]
    ends.coming.extend([answer(2, 72), void(3), answer(4, 74)])
    found = [chain.answer() for _ in range(2)]
    assert [(each.step, each.answer.candidates.ravel()[0]) for each in found] == [(1, 71), (4, 74)]


def test_a_step_whose_answer_has_come_already_is_dropped_too() -> None:
    ends = Ends()
    chain = Chain(ends, ends, ends, leaders=[1], n_last=1)
    chain.send(STEP, 0.0)
    ends.coming.append(answer(1, 71))
    assert chain.has_answer()
    chain.recall([1])
    assert (chain.has_answer(), ends.told) == (False, [])


def test_the_root_never_has_more_answers_coming_than_there_is_room_for() -> None:
    """Two stages: four steps under way, and as many that are void."""
    ends = Ends()
    chain = Chain(ends, ends, ends, leaders=[1], n_last=1)
    for _ in range(8):
        chain.send(STEP, 0.0)
    with pytest.raises(IndexError):  # it waits for an answer, and there is none
        chain.send(STEP, 0.0)
    ends.coming.append(answer(1, 71))
    chain.send(STEP, 0.0)
    assert len(ends.sent) == 9
    ends.coming.extend(answer(step, 70) for step in range(2, 10))
    chain.settle()
    assert not ends.coming


def logits_row(step: int, number: int, n_rows: int) -> Letter:
    return Letter(Message.ANSWER, step, np.array([10**9, 0, n_rows, number]), np.full((1, 4), number, np.float32))


def test_logits_come_row_by_row_before_anything_else_is_sent() -> None:
    """The last leader has room for few of them, and waits for the root."""
    ends = Ends()
    chain = Chain(ends, ends, ends, leaders=[1], n_last=1)
    chain.send(Step([0] * 3, [0, 1, 2], [0, 1, 2], 0, [0] * 3, [0.0] * 3), 0.0)
    ends.coming.extend(logits_row(1, number, 3) for number in range(2))
    assert not chain.has_answer()
    ends.coming.append(logits_row(1, 2, 3))
    chain.tell(Message.CUT, 0, 0)
    assert not ends.coming and len(ends.sent) == 2
    assert chain.answer().answer.logits.tolist() == [[0.0] * 4, [1.0] * 4, [2.0] * 4]


class Counting:
    """A stage that says what it was asked to compute."""

    n_kept = 3

    def __init__(self) -> None:
        self.n_computed = 0

    def forward(self, step: Step, x: np.ndarray) -> object:
        self.n_computed += 1
        return NOTHING


class Told:
    def __init__(self, *steps: int) -> None:
        self.steps = steps

    def has(self, step: int) -> bool:
        return step in self.steps


@pytest.mark.parametrize("is_last", [False, True])
def test_a_leader_leaves_what_was_recalled_and_tells_the_next(is_last: bool) -> None:
    ends, stage = Ends(), Counting()
    ways = Ways(ends, None if is_last else ends, ends if is_last else None, Told(7))
    leader = _Leader(stage, None, ways)
    words = step_words(STEP, 0)
    for letter in (Letter(Message.FORWARD, 6, words), Letter(Message.FORWARD, 7, words)):
        assert leader.obey(letter)
    assert leader.obey(Letter(Message.VOID, 8, np.empty(0, np.int64)))
    assert stage.n_computed == 1
    left = [(kind, step, told) for kind, step, told in ends.sent if step > 6]
    if is_last:
        assert left == [(Message.ANSWER, 7, [0, 0]), (Message.ANSWER, 8, [0, 0])]
    else:
        assert left == [(Message.VOID, 7, []), (Message.VOID, 8, [])]
