"""What the leader of a stage does that is not the root's: it computes the rows that come and sends them on.

A step that the root has recalled is not computed: before it begins with one, a leader looks at what has come from the
root past the chain. Ranks that share its layers never hear of such a step.
"""

import time
from collections import deque
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dllama_py.engine.collector import paused_collector, settle, unsettle
from dllama_py.engine.follower import obey_all
from dllama_py.engine.pipeline import ANSWER_HEAD, STEP_HEAD, Answering, Arriving, Heard, Onward
from dllama_py.engine.protocol import Message, read_step
from dllama_py.engine.stage import NOTHING, Answer, Stage
from dllama_py.transport.metered import MeteredComm

NO_WORDS = np.empty(0, np.int64)


class Recalled(Protocol):
    """What the root has said past the chain."""

    def has(self, step: int, /) -> bool:
        """Whether a step, none before which will be asked for again, is void as far as is known here."""


@dataclass(frozen=True, slots=True)
class Ways:
    """To and from a leader. `onward`: to the next one, if there is one. `root`: of the last one alone. `recalled`: what
    the root says past the chain. An idle rank has but the first.
    """

    arriving: Arriving
    onward: Onward | None = None
    root: Answering | None = None
    recalled: Recalled | None = None


def lead(stage: Stage, world: MeteredComm, ways: Ways) -> None:
    """On every leader but the root: computes and passes on what comes, until it is told to stop."""
    settle()
    with paused_collector():
        leader = _Leader(stage, world, ways)
        while leader.obey(ways.arriving.receive()):
            pass
    unsettle()


class _Leader:
    def __init__(self, stage: Stage, world: MeteredComm, ways: Ways) -> None:
        self._stage = stage
        self._world = world
        self._traffic = ways.arriving.traffic
        self._onward = ways.onward
        self._root = ways.root
        self._recalled = ways.recalled
        self._computed: deque[int] = deque(maxlen=stage.n_kept + 1)  # steps, the last ones

    def obey(self, heard: Heard) -> bool:
        """Does what a message says; False if that is to stop."""
        kind = Message(heard.kind)
        if kind is Message.FORWARD and not (self._recalled and self._recalled.has(heard.step)):
            self._forward(heard)
        elif kind in (Message.FORWARD, Message.VOID):
            self._leave(heard.step)
        elif kind in (Message.LOGITS, Message.DRAW):
            self._tell_more(kind, heard)
        else:
            words = heard.words.tolist()
            self._stage.mail.tell(kind, *words)
            if self._onward:
                self._onward.send(kind, heard.step, heard.words)
            obey_all(kind, words, self._stage.model, self._world, self._traffic)
            self._hash(kind)
        return kind is not Message.STOP

    def _hash(self, kind: Message) -> None:
        if kind is Message.HASH_ALL:
            self._stage.residuals.keep()
        elif kind is Message.KEPT:
            self._stage.residuals.send_kept(self._world)

    def _forward(self, heard: Heard) -> None:
        started_ns = time.perf_counter_ns()
        n_rows, n_wanted, n_candidates, computed_ns = heard.words[:STEP_HEAD].tolist()
        step = read_step(heard.words[STEP_HEAD:], n_rows, n_wanted, n_candidates)
        answer = self._stage.forward(step, heard.rows)
        self._computed.append(heard.step)
        computed_ns += time.perf_counter_ns() - started_ns
        if self._onward:
            words = heard.words.copy()
            words[STEP_HEAD - 1] = computed_ns
            self._onward.send(Message.FORWARD, heard.step, words, n_rows)
        elif self._root and answer is not NOTHING:
            _send_answer(self._root, answer, heard.step, computed_ns)

    def _leave(self, step: int) -> None:
        """Of a void step the next ones are told only that they need not wait for it."""
        if self._onward:
            self._onward.send(Message.VOID, step, NO_WORDS)
        elif self._root:
            self._root.send(Message.ANSWER, step, np.zeros(ANSWER_HEAD, np.int64))

    def _tell_more(self, kind: Message, heard: Heard) -> None:
        """To the root, of a step's wanted rows; a leader that is not the last does not know."""
        if self._onward:
            self._onward.send(kind, heard.step, heard.words)
            return
        assert self._root is not None, "nobody asks a rank that is idle"
        number, step = heard.words[:2].tolist()
        age = len(self._computed) - 1 - self._computed.index(step)
        if kind is Message.LOGITS:
            row = self._stage.logits.row(number, age)
            self._root.send(Message.MORE, heard.step, NO_WORDS, row[np.newaxis])
        else:
            share, *floats = heard.words[2:].tolist()
            part, temperature = np.array(floats).view(np.float64).tolist()
            drawn = self._stage.logits.draw(number, share, part, temperature, age)
            self._root.send(Message.MORE, heard.step, np.array([drawn], np.int64))


def _send_answer(root: Answering, answer: Answer, step: int, computed_ns: int) -> None:
    if answer.candidates is None:
        assert answer.logits is not None, "a step that wants something has an answer"
        n_rows = len(answer.logits)
        for number in range(n_rows):
            words = np.array([computed_ns, 0, n_rows, number], np.int64)
            root.send(Message.ANSWER, step, words, answer.logits[number : number + 1])
        return
    head = np.array([computed_ns, answer.candidates.shape[1]], np.int64)
    root.send(Message.ANSWER, step, np.concatenate([head, answer.candidates.reshape(-1)]))
