"""The root tells every rank what to compute, all compute it, the root gets what it needs to choose tokens.

Nothing but the messages of protocol.py and the answers to them travels between the root and a worker, so a worker's
whole behaviour is `serve`.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dllama_py.engine.all_logits import AllLogits
from dllama_py.engine.collector import paused_collector, settle, unsettle
from dllama_py.engine.meter import Meter
from dllama_py.engine.protocol import Mail, Message
from dllama_py.engine.rank_logits import RankLogits
from dllama_py.engine.residual_check import ResidualCheck, send_hashes
from dllama_py.engine.scores import Ask
from dllama_py.engine.step import Floats, Row, StepResult
from dllama_py.model.rank_model import READ_TRIES, RankModel, Step
from dllama_py.profiler import peak_rss_bytes, private_bytes
from dllama_py.sharding.plan import Shard
from dllama_py.transport.metered import MeteredComm

Embed = Callable[[Sequence[int]], Floats]  # ids -> float32 [T, D]

READ_BYTES = 5 << 28  # 1.25 GiB, above any cache


class Runner:
    """At the root: runs steps on all ranks."""

    def __init__(self, model: RankModel, comm: MeteredComm, shards: Sequence[Shard], embed: Embed) -> None:
        self.model = model
        self.config = model.config
        self.max_rows = model.buffers.max_rows
        self.context = model.cache.context
        self._comm = comm
        self._embed = embed
        self._mail = Mail(comm, self.max_rows, self.config.width)
        self._logits = AllLogits(model, comm, shards, self._mail)
        self.residuals = ResidualCheck(model, comm, self._mail)
        self._no_logits = np.empty((0, self.config.vocab_size), np.float32)
        settle()

    def forward(self, rows: Sequence[Row], wanted: Sequence[int], asks: Sequence[Ask] = ()) -> StepResult:
        """Computes up to `max_rows` rows; what comes back is of the rows whose numbers are wanted.

        Rows of one slot stand together and continue what the slot holds. `asks`: one for each wanted row, whose scores
        then come, valid until the next step; without them all logits come. ClusterError if an exchange fails, a rank
        is lost, or one computes other numbers than the rest.
        """
        meter = Meter(self.model, self._comm)
        step = _step_of(rows, wanted, asks)
        embedded = self._embed([row.id for row in rows])
        self._mail.tell_step(step, embedded)
        self.model.buffers.x[: len(rows)] = embedded
        self.model.forward(step)
        scores = self._logits.scores(asks, step.n_candidates) if asks else ()
        logits = self._logits.rows(len(wanted)) if wanted and not asks else self._no_logits
        self.residuals.after_step(step.positions)
        return StepResult(logits, meter.cost(len(rows)), scores)

    def cut(self, slot: int, length: int) -> None:
        """Forgets the positions of a slot from `length` on, on all ranks."""
        self._mail.tell(Message.CUT, slot, length)
        self.model.cache.cut(slot, length)

    def memory(self) -> list[tuple[int, int]]:
        """(private bytes, peak resident bytes) of every rank, now."""
        self._mail.tell(Message.REPORT)
        reports = [np.empty(2, np.int64) for _ in range(self._comm.size)]
        self._comm.gather(_memory_report(), reports)
        return [(int(private), int(peak)) for private, peak in reports]

    def read_bytes_per_s(self) -> float:
        """How fast all ranks together stream memory, each its part of a buffer over 1 GB; the best of some tries."""
        self._mail.tell(Message.READ)
        seconds = np.empty((self._comm.size, READ_TRIES), np.float64)
        self._comm.gather(_read_seconds(self.model, self._comm), list(seconds))
        return READ_BYTES / float(seconds.max(axis=0).min())

    def stop(self) -> None:
        """Ends `serve` on all other ranks."""
        self._mail.tell(Message.STOP)
        unsettle()


def serve(model: RankModel, comm: MeteredComm, shard: Shard) -> None:
    """On the other ranks: computes what the root says until it says stop."""
    settle()
    with paused_collector():
        mail, own = Mail(comm, model.buffers.max_rows, model.config.width), RankLogits(model, shard)
        while _answer(model, comm, mail, own):
            pass
    unsettle()


def _answer(model: RankModel, comm: MeteredComm, mail: Mail, own: RankLogits) -> bool:
    """Does what the next message says; False if that is to stop."""
    match mail.hear():
        case Message.STOP, _:
            return False
        case Message.FORWARD, [n_rows, n_wanted, n_candidates, *_]:
            _forward(model, comm, own, *mail.hear_step(n_rows, n_wanted, n_candidates))
        case Message.CUT, [slot, length, *_]:
            model.cache.cut(slot, length)
        case Message.REPORT, _:
            comm.gather(_memory_report(), None)
        case Message.READ, _:
            comm.gather(_read_seconds(model, comm), None)
        case Message.LOGITS, [row, *_]:
            comm.gather(np.ascontiguousarray(own.rows(row + 1)[row:]), None)
        case Message.DRAW, [row, share, part, temperature, *_] if own.owner(share) == comm.rank:
            drawn = own.draw(row, share, *np.array([part, temperature]).view(np.float64).tolist())
            comm.send(np.array([drawn], np.int64), 0)
        case Message.HASH_ALL, _:
            model.hash_every = 1
        case Message.HASHES, [n_rows, of_leaves, *_]:
            send_hashes(model, comm, n_rows, bool(of_leaves))
    return True


def _forward(model: RankModel, comm: MeteredComm, own: RankLogits, step: Step, embedded: Floats) -> None:
    """One step on a rank that is not the root."""
    model.buffers.x[: len(embedded)] = embedded
    model.forward(step)
    if step.n_candidates:
        comm.gather(own.candidates(len(step.wanted), step.n_candidates).reshape(-1), None)
    elif len(step.wanted):
        comm.gather(np.ascontiguousarray(own.rows(len(step.wanted))), None)


def _step_of(rows: Sequence[Row], wanted: Sequence[int], asks: Sequence[Ask]) -> Step:
    return Step(
        [row.slot for row in rows],
        [row.position for row in rows],
        wanted,
        max([ask.n_candidates for ask in asks], default=0),
        [ask.n_tokens for ask in asks] or [0] * len(wanted),
        [ask.inverse_temperature for ask in asks] or [0.0] * len(wanted),
    )


def _memory_report() -> NDArray[np.int64]:
    return np.array([private_bytes(), peak_rss_bytes()], np.int64)


def _read_seconds(model: RankModel, comm: MeteredComm) -> NDArray[np.float64]:
    return np.array(model.read_seconds(READ_BYTES // comm.size, comm.barrier), np.float64)
