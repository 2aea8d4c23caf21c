"""Stages one behind the other: what the root's stage has made of a step's rows goes from leader to leader.

Everything takes the one way along the chain, so all ranks see the same messages in the same order; only the last
leader speaks to the root directly, and the root to each leader to recall steps. A message is on its way while its
sender goes on: several chunks of a prompt, the steps of several sequences, or steps that one sequence sends ahead are
in the pipe at once. The root (chain.py) never has more answers under way than the last leader (leader.py) has buffers
for, so nobody waits in a circle. Logits of a step come as a message a row, since a row is as long as the vocabulary;
then the root takes all of them before it sends anything else.
"""

from typing import Protocol

import numpy as np

from dllama_py.engine.protocol import Words, n_step_words, write_step
from dllama_py.engine.step import Floats
from dllama_py.model.rank_model import Step
from dllama_py.transport.hop import HopTraffic

STEP_HEAD = 4  # words before those of the step: rows, wanted rows, candidates of each, nanoseconds computed so far
ANSWER_HEAD = 2  # nanoseconds computed by all stages, wanted rows whose candidates follow
LOGITS_HEAD = 4  # instead: nanoseconds, 0, wanted rows, number of the one whose logits follow


class Onward(Protocol):
    """To the next leader."""

    def send(self, kind: int, step: int, words: Words, n_rows: int = 0, /) -> None:
        """With so many rows of what the stage has made."""


class Answering(Protocol):
    """From the last leader to the root."""

    def send(self, kind: int, step: int, words: Words, logits: Floats | None = None, /) -> None:
        """logits: float32 [W, V]."""


class Heard(Protocol):
    """A message; valid until the next. `rows`: float32 [T, D], or logits [W, V]."""

    @property
    def kind(self) -> int: ...

    @property
    def step(self) -> int: ...

    @property
    def words(self) -> Words: ...

    @property
    def rows(self) -> Floats: ...


class Arriving(Protocol):
    """From the leader before, or at the root from the last."""

    @property
    def traffic(self) -> HopTraffic:
        """Of these messages, so far."""

    def receive(self) -> Heard: ...

    def has_message(self) -> bool:
        """Whether `receive` would return at once."""


def most_words(max_rows: int) -> int:
    """Of a message along the chain."""
    return STEP_HEAD + n_step_words(max_rows, max_rows)


def step_words(step: Step, computed_ns: int) -> Words:
    """As they travel with a step's rows."""
    n_rows, n_wanted = len(step.slots), len(step.wanted)
    words = np.empty(STEP_HEAD + n_step_words(n_rows, n_wanted), np.int64)
    words[:STEP_HEAD] = n_rows, n_wanted, step.n_candidates, computed_ns
    write_step(words[STEP_HEAD:], step)
    return words
