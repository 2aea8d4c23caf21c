"""The root's view of the stages behind its own."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dllama_py.engine.all_logits import float_words
from dllama_py.engine.pipeline import (
    ANSWER_HEAD,
    LOGITS_HEAD,
    Arriving,
    Heard,
    Onward,
    step_words,
)
from dllama_py.engine.protocol import Message, Words
from dllama_py.engine.stage import Answer
from dllama_py.engine.step import Floats
from dllama_py.errors import ClusterError
from dllama_py.model.rank_model import Step
from dllama_py.sharding.grid import answers_on_their_way, steps_in_flight
from dllama_py.transport.hop import HopTraffic


class Recalling(Protocol):
    """From the root to the leaders of all other stages, past the chain."""

    def tell(self, steps: Sequence[int], /) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Answered:
    """Of a step, and the seconds that all stages computed for it."""

    step: int
    answer: Answer
    computed_s: float


class Chain:
    """`leaders`: of these stages; `n_last`: ranks of the last one. `n_stages`: with the root's."""

    def __init__(
        self, onward: Onward, answers: Arriving, recalling: Recalling, leaders: Sequence[int], n_last: int
    ) -> None:
        self.leaders = leaders
        self.n_stages = len(leaders) + 1
        self.n_in_flight = steps_in_flight(self.n_stages)
        self._onward = onward
        self._answers = answers
        self._recalling = recalling
        self._n_last = n_last
        self._n_sent = 0
        self._unanswered: deque[int] = deque()  # steps, in the order of their answers
        self._void: set[int] = set()  # of these
        self._early: deque[Answered] = deque()  # answers that came while something else was waited for
        self._whole: set[int] = set()  # unanswered steps whose logits are wanted
        self._logits: Floats | None = None  # of the one whose rows are coming

    def send(self, step: Step, computed_s: float) -> "SentStep":
        """What the root's stage has made of a step's rows in so many seconds."""
        while len(self._unanswered) >= answers_on_their_way(self.n_stages):
            self._take(self._heard(Message.ANSWER))
        self._n_sent += 1
        words = step_words(step, int(1e9 * computed_s))
        self._send(Message.FORWARD, self._n_sent, words, len(step.slots))
        if step.wanted:
            self._unanswered.append(self._n_sent)
            if not step.n_candidates:
                self._whole.add(self._n_sent)
        return SentStep(self, self._n_sent)

    def _send(self, kind: Message, step: int, words: Words, n_rows: int = 0) -> None:
        """The last leader may wait for the root to take its logits, and the leaders before it for that one."""
        while self._whole:
            self._take(self._heard(Message.ANSWER))
        self._onward.send(kind, step, words, n_rows)

    def tell(self, kind: Message, *words: int) -> None:
        """To the leaders of all other stages, who pass it on to their ranks."""
        self._send(kind, self._n_sent, np.array(words, np.int64))

    @property
    def traffic(self) -> HopTraffic:
        """Of the answers."""
        return self._answers.traffic

    def recall(self, steps: Sequence[int]) -> None:
        """These are void: whoever has not begun with one leaves it, and what is answered is dropped."""
        self._early = deque(answered for answered in self._early if answered.step not in steps)
        void = [step for step in self._unanswered if step in steps]
        self._void.update(void)
        if void:
            self._recalling.tell(void)

    def has_answer(self) -> bool:
        """Whether `answer` would return at once."""
        while not self._early and self._unanswered and self._answers.has_message():
            self._take(self._heard(Message.ANSWER))
        return bool(self._early)

    def answer(self) -> Answered:
        """To the oldest step that is not void and whose wanted rows have not been told yet."""
        while not self._early:
            self._take(self._heard(Message.ANSWER))
        return self._early.popleft()

    def settle(self) -> None:
        """Before the end: all answers have come, what was recalled has left."""
        while self._unanswered:
            self._take(self._heard(Message.ANSWER))
        self._recalling.close()

    def ask(self, kind: Message, step: int, *words: int) -> Heard:
        """More of a step that was sent: LOGITS or DRAW."""
        self._send(kind, self._n_sent, np.array([words[0], step, *words[1:]], np.int64))
        return self._heard(Message.MORE)

    def _heard(self, wanted: Message) -> Heard:
        heard = self._answers.receive()
        while heard.kind == Message.ANSWER != wanted:
            self._take(heard)
            heard = self._answers.receive()
        if heard.kind != wanted:
            raise ClusterError(f"a message of kind {heard.kind} came where {wanted} was expected; restart the cluster")
        return heard

    def _take(self, heard: Heard) -> None:
        step = self._unanswered[0]
        if step in self._void:
            self._void.remove(step)
        else:
            computed_ns, n_wanted = heard.words[:ANSWER_HEAD].tolist()
            answer = self._with_candidates(heard, n_wanted) if n_wanted else self._with_logits(heard)
            if answer is None:
                return
            self._early.append(Answered(step, answer, 1e-9 * computed_ns))
        self._unanswered.popleft()
        self._whole.discard(step)

    def _with_candidates(self, heard: Heard, n_wanted: int) -> Answer:
        return Answer(candidates=heard.words[ANSWER_HEAD:].reshape(self._n_last, n_wanted, -1).copy())

    def _with_logits(self, heard: Heard) -> Answer | None:
        """When all rows have come."""
        n_rows, number = heard.words[ANSWER_HEAD:LOGITS_HEAD].tolist()
        if self._logits is None:
            self._logits = np.empty((n_rows, heard.rows.shape[1]), np.float32)
        self._logits[number] = heard.rows[0]
        if number + 1 < n_rows:
            return None
        answer, self._logits = Answer(logits=self._logits), None
        return answer


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
