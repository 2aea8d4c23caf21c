"""Stages one behind the other: what the root's stage has made of a step's rows goes from leader to leader.

Everything takes the one way along the chain, so all ranks see the same messages in the same order; only the last
leader speaks to the root directly. A message is on its way while its sender goes on: several chunks of a prompt, or
the steps of several sequences, are in the pipe at once. The root never has more answers under way than the last leader
has buffers for, so nobody waits in a circle.
"""

import time
from collections import deque
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dllama_py.engine.all_logits import float_words
from dllama_py.engine.collector import paused_collector, settle, unsettle
from dllama_py.engine.follower import obey_all
from dllama_py.engine.protocol import Message, Words, n_step_words, read_step, write_step
from dllama_py.engine.stage import NOTHING, Answer, Stage
from dllama_py.engine.step import Floats
from dllama_py.errors import ClusterError
from dllama_py.model.rank_model import Step
from dllama_py.transport.metered import MeteredComm

STEP_HEAD = 4  # words before those of the step: rows, wanted rows, candidates of each, nanoseconds computed so far
ANSWER_HEAD = 2  # nanoseconds computed by all stages, wanted rows whose candidates follow


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

    def receive(self) -> Heard: ...


class Chain:
    """The root's view of the stages behind its own. `n_stages`: with it; `n_last`: ranks of the last one."""

    def __init__(self, onward: Onward, answers: Arriving, n_stages: int, n_last: int) -> None:
        self.n_stages = n_stages
        self._onward = onward
        self._answers = answers
        self._n_last = n_last
        self._n_sent = 0
        self._early: deque[tuple[Answer, float]] = deque()  # answers that came while something else was waited for

    def send(self, step: Step, computed_s: float) -> "SentStep":
        """What the root's stage has made of a step's rows in so many seconds."""
        self._n_sent += 1
        words = _step_words(step, int(1e9 * computed_s))
        self._onward.send(Message.FORWARD, self._n_sent, words, len(step.slots))
        return SentStep(self, self._n_sent)

    def tell(self, kind: Message, *words: int) -> None:
        """To the leaders of all other stages, who pass it on to their ranks."""
        self._onward.send(kind, self._n_sent, np.array(words, np.int64))

    def answer(self) -> tuple[Answer, float]:
        """To the oldest step whose wanted rows have not been told yet, and the seconds that all stages computed."""
        return self._early.popleft() if self._early else self._read(self._heard(Message.ANSWER))

    def ask(self, kind: Message, step: int, *words: int) -> Heard:
        """More of a step that was sent: LOGITS or DRAW."""
        self._onward.send(kind, self._n_sent, np.array([words[0], self._n_sent - step, *words[1:]], np.int64))
        return self._heard(Message.MORE)

    def _heard(self, wanted: Message) -> Heard:
        heard = self._answers.receive()
        while heard.kind == Message.ANSWER != wanted:
            self._early.append(self._read(heard))
            heard = self._answers.receive()
        if heard.kind != wanted:
            raise ClusterError(f"a message of kind {heard.kind} came where {wanted} was expected; restart the cluster")
        return heard

    def _read(self, heard: Heard) -> tuple[Answer, float]:
        computed_ns, n_wanted = heard.words[:ANSWER_HEAD].tolist()
        if not n_wanted:
            return Answer(logits=heard.rows), 1e-9 * computed_ns
        candidates = heard.words[ANSWER_HEAD:].reshape(self._n_last, n_wanted, -1)
        return Answer(candidates=candidates.copy()), 1e-9 * computed_ns


@dataclass(frozen=True, slots=True)
class SentStep:
    """Tells more of a step than its answer did, while no more than `n_stages` steps have been sent since: an
    all_logits.LogitsSource.
    """

    chain: Chain
    number: int

    def row(self, number: int) -> Floats:
        logits: Floats = self.chain.ask(Message.LOGITS, self.number, number).rows[0]
        return logits

    def draw(self, number: int, share: int, part: float, temperature: float) -> int:
        heard = self.chain.ask(Message.DRAW, self.number, number, share, *float_words(part, temperature))
        return int(heard.words[0])


def lead(stage: Stage, world: MeteredComm, arriving: Arriving, onward: Onward | None, root: Answering | None) -> None:
    """On every leader but the root: computes and passes on what comes, until it is told to stop.

    `onward`: to the next leader, if there is one. `root`: of the last one alone. An idle rank has neither.
    """
    settle()
    with paused_collector():
        leader = _Leader(stage, world, onward, root)
        while leader.obey(arriving.receive()):
            pass
    unsettle()


class _Leader:
    def __init__(self, stage: Stage, world: MeteredComm, onward: Onward | None, root: Answering | None) -> None:
        self._stage = stage
        self._world = world
        self._onward = onward
        self._root = root

    def obey(self, heard: Heard) -> bool:
        """Does what a message says; False if that is to stop."""
        kind = Message(heard.kind)
        if kind is Message.FORWARD:
            self._forward(heard)
        elif kind in (Message.LOGITS, Message.DRAW):
            self._tell_more(kind, heard)
        else:
            words = heard.words.tolist()
            self._stage.mail.tell(kind, *words)
            if self._onward:
                self._onward.send(kind, heard.step, heard.words)
            obey_all(kind, words, self._stage.model, self._world)
        return kind is not Message.STOP

    def _forward(self, heard: Heard) -> None:
        started_ns = time.perf_counter_ns()
        n_rows, n_wanted, n_candidates, computed_ns = heard.words[:STEP_HEAD].tolist()
        step = read_step(heard.words[STEP_HEAD:], n_rows, n_wanted, n_candidates)
        answer = self._stage.forward(step, heard.rows)
        computed_ns += time.perf_counter_ns() - started_ns
        if self._onward:
            words = heard.words.copy()
            words[STEP_HEAD - 1] = computed_ns
            self._onward.send(Message.FORWARD, heard.step, words, n_rows)
        elif self._root and answer is not NOTHING:
            _send_answer(self._root, answer, heard.step, computed_ns)

    def _tell_more(self, kind: Message, heard: Heard) -> None:
        """To the root, of a step's wanted rows; a leader that is not the last does not know."""
        if self._onward:
            self._onward.send(kind, heard.step, heard.words)
        elif self._root and kind is Message.LOGITS:
            row = self._stage.logits.row(*heard.words.tolist())
            self._root.send(Message.MORE, heard.step, np.empty(0, np.int64), row[np.newaxis])
        elif self._root:
            number, age, share = heard.words[:3].tolist()
            part, temperature = heard.words[3:].view(np.float64).tolist()
            drawn = self._stage.logits.draw(number, share, part, temperature, age)
            self._root.send(Message.MORE, heard.step, np.array([drawn], np.int64))


def _send_answer(root: Answering, answer: Answer, step: int, computed_ns: int) -> None:
    if answer.candidates is None:
        root.send(Message.ANSWER, step, np.array([computed_ns, 0], np.int64), answer.logits)
        return
    head = np.array([computed_ns, answer.candidates.shape[1]], np.int64)
    root.send(Message.ANSWER, step, np.concatenate([head, answer.candidates.reshape(-1)]))


def most_words(max_rows: int) -> int:
    """Of a message along the chain."""
    return STEP_HEAD + n_step_words(max_rows, max_rows)


def _step_words(step: Step, computed_ns: int) -> Words:
    n_rows, n_wanted = len(step.slots), len(step.wanted)
    words = np.empty(STEP_HEAD + n_step_words(n_rows, n_wanted), np.int64)
    words[:STEP_HEAD] = n_rows, n_wanted, step.n_candidates, computed_ns
    write_step(words[STEP_HEAD:], step)
    return words
