"""At the root: what is to be computed goes to all ranks, what was asked for comes back.

Nothing but the messages of protocol.py and the answers to them travels between the root and the others, so another
rank's whole behaviour is `follower.serve` or `pipeline.lead`.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dllama_py.engine.all_logits import LogitsSource, scores_of
from dllama_py.engine.chain import Chain
from dllama_py.engine.collector import settle, unsettle
from dllama_py.engine.hop_report import HopTotals, tell_hops
from dllama_py.engine.meter import Meter
from dllama_py.engine.pipeline import Onward
from dllama_py.engine.protocol import Message
from dllama_py.engine.residual_check import Hashes
from dllama_py.engine.scores import Scores
from dllama_py.engine.stage import Answer, Stage, memory_report, read_seconds
from dllama_py.engine.step import Floats, StepResult, Work
from dllama_py.model.memory import READ_BYTES
from dllama_py.model.rank_model import READ_TRIES, Step
from dllama_py.transport.metered import MeteredComm, Traffic

Embed = Callable[[Sequence[int]], Floats]  # ids -> float32 [T, D]


@dataclass(frozen=True, slots=True)
class Pending:
    """A step that has begun. `answer`: of the root's own stage, which knows it at once if it is the only one; `source`
    tells more. `number`: the chain's, 0 where there is none.
    """

    number: int
    work: Work
    meter: Meter
    computed_s: float
    answer: Answer
    source: LogitsSource


class Runner:
    """Runs steps on all ranks. `stage`: the root's own; `chain`: those behind it, if there are any; `idle`: to ranks
    that have no layers and only report.
    """

    def __init__(
        self, stage: Stage, world: MeteredComm, embed: Embed, chain: Chain | None, idle: Sequence[Onward]
    ) -> None:
        self.model = stage.model
        self.config = stage.model.config
        self.max_rows = stage.model.buffers.max_rows
        self.context = stage.model.cache.context
        self._stage = stage
        self._world = world
        self._embed = embed
        self._chain = chain
        self._idle = idle
        self._n_under_way = 0
        self._since: Meter | None = None  # the last result, if steps were under way then
        self._no_logits = np.empty((0, self.config.vocab_size), np.float32)
        settle()

    @property
    def n_stages(self) -> int:
        """That may compute at the same time."""
        return self._chain.n_stages if self._chain else 1

    @property
    def n_in_flight(self) -> int:
        """Steps that may be submitted and neither collected nor recalled: one for each stage, and some on their way."""
        return self._chain.n_in_flight if self._chain else 1

    def forward(self, work: Work) -> StepResult:
        """Computes up to `max_rows` rows; what comes back is of those that are wanted, scores until the next step.

        Where nothing is wanted, later stages may still be at work. ClusterError if an exchange fails, a rank is lost,
        or one computes other numbers than others.
        """
        return self.collect(self.submit(work))

    def submit(self, work: Work) -> Pending:
        """Begins a step, as `forward`. Steps are collected in the order in which they were submitted, `n_in_flight` of
        them may be under way. Their scores are valid as long as no more than that have been submitted since.
        """
        meter = self._new_meter()
        started_s = time.perf_counter()
        step = _step_of(work)
        answer = self._stage.forward(step, self._embed([row.id for row in work.rows]))
        computed_s = time.perf_counter() - started_s
        self._n_under_way += 1
        if self._chain is None:
            if answer.logits is not None and self._stage.comm.size == 1:
                answer = Answer(logits=answer.logits.copy())  # the next step overwrites its own
            return Pending(0, work, meter, computed_s, answer, self._stage.logits)
        sent = self._chain.send(step, computed_s)
        return Pending(sent.number, work, meter, computed_s, answer, sent)

    def is_there(self, pending: Pending) -> bool:
        """Whether `collect` of the oldest step under way would return at once."""
        return self._chain is None or not pending.work.wanted or self._chain.has_answer()

    def collect(self, pending: Pending) -> StepResult:
        """Waits for the end of a step, if anything of it is wanted. What it cost is counted from its beginning, or from
        the end of the one before it if that was later.
        """
        answer, elsewhere_s = pending.answer, 0.0
        if self._chain and pending.work.wanted:
            answered = self._chain.answer()
            answer, elsewhere_s = answered.answer, answered.computed_s - pending.computed_s
        scores: tuple[Scores, ...] = ()
        if answer.candidates is not None:
            scores = scores_of(pending.work.asks, answer.candidates, pending.source, self._new_meter)
        logits = self._no_logits if answer.logits is None else answer.logits
        meter = max(pending.meter, self._since or pending.meter, key=lambda meter: meter.started_s)
        cost = meter.cost(len(pending.work.rows), elsewhere_s)
        self._n_under_way -= 1
        self._since = self._new_meter() if self._n_under_way else None
        return StepResult(logits, cost, scores)

    def recall(self, steps: Sequence[Pending]) -> None:
        """Of works that are ahead: nobody will collect these steps. Stages that have not begun with one leave it."""
        assert all(pending.work.is_ahead for pending in steps), "a cache may count on the others"
        self._n_under_way -= len(steps)
        if self._chain:
            self._chain.recall([pending.number for pending in steps])

    def cut(self, slot: int, length: int) -> None:
        """Forgets the positions of a slot from `length` on, on all ranks."""
        self._tell(Message.CUT, slot, length)
        self.model.cache.cut(slot, length)

    def memory(self) -> list[tuple[int, int]]:
        """(private bytes, peak resident bytes) of every rank, now."""
        self._tell(Message.REPORT)
        reports = [np.empty(2, np.int64) for _ in range(self._world.size)]
        self._world.gather(memory_report(), reports)
        return [(int(private), int(peak)) for private, peak in reports]

    def keep_hashes(self) -> None:
        """From now on every step is hashed."""
        self._tell(Message.HASH_ALL)
        self._stage.residuals.keep()

    def kept_hashes(self) -> tuple[Hashes, Hashes]:
        """Of the T rows since `keep_hashes`: residual stream int64 [T, L + 1] and leaves [T, L, 2, P] of all layers."""
        if self._chain:
            self._chain.tell(Message.KEPT)
        return self._stage.residuals.kept_with(self._world, self._chain.leaders if self._chain else ())

    def hop_totals(self) -> HopTotals | None:
        """What the messages between stages have taken so far; None where there is one stage."""
        if self._chain is None:
            return None
        self._tell(Message.HOPS)
        return tell_hops(self._world, self._chain.traffic)

    def read_bytes_per_s(self) -> float:
        """How fast all ranks together stream memory, each its part of a buffer over 1 GB; the best of some tries."""
        self._tell(Message.READ)
        seconds = np.empty((self._world.size, READ_TRIES), np.float64)
        self._world.gather(read_seconds(self.model, self._world), list(seconds))
        return READ_BYTES / float(seconds.max(axis=0).min())

    def stop(self) -> None:
        """Ends what all other ranks do."""
        if self._chain:
            self._chain.settle()
        self._tell(Message.STOP)
        unsettle()

    def _tell(self, kind: Message, *words: int) -> None:
        self._stage.mail.tell(kind, *words)
        if self._chain:
            self._chain.tell(kind, *words)
        for onward in self._idle:
            onward.send(kind, 0, np.array(words, np.int64))

    def _new_meter(self) -> Meter:
        return Meter(self.model, self._traffic)

    def _traffic(self) -> Traffic:
        own = self._stage.comm
        return self._world.traffic if own is self._world else self._world.traffic + own.traffic


def _step_of(work: Work) -> Step:
    return Step(
        [row.slot for row in work.rows],
        [row.position for row in work.rows],
        work.wanted,
        max([ask.n_candidates for ask in work.asks], default=0),
        [ask.n_tokens for ask in work.asks] or [0] * len(work.wanted),
        [ask.inverse_temperature for ask in work.asks] or [0.0] * len(work.wanted),
    )
