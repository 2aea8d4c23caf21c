"""The step protocol: the root tells every rank what to compute, all compute it, the root gets the logits.

A message is a header of 4 words (kind, rows, wanted rows, length) and, for a forward, one payload: slots, positions,
wanted rows, embedded rows. Nothing else travels between the root and a worker, so a worker's whole behaviour
is `serve`.
"""

import time
from collections.abc import Callable, Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from dllama_py.engine.step import Floats, Row, StepCost, StepResult
from dllama_py.model.rank_model import READ_TRIES, RankModel, Step
from dllama_py.profiler import peak_rss_bytes, private_bytes
from dllama_py.sharding.plan import Shard
from dllama_py.transport.metered import MeteredComm

Embed = Callable[[Sequence[int]], Floats]  # ids -> float32 [T, D]


READ_BYTES = 5 << 28  # 1.25 GiB, above any cache


class Message(IntEnum):
    STOP = 0
    FORWARD = 1
    CUT = 2  # the slot's positions from `length` on are forgotten
    REPORT = 3  # every rank tells its memory
    READ = 4  # all ranks read memory at once and tell their rates


class Runner:
    """At the root: runs steps on all ranks."""

    def __init__(self, model: RankModel, comm: MeteredComm, shards: Sequence[Shard], embed: Embed) -> None:
        self.model = model
        self.config = model.config
        self.max_rows = model.buffers.max_rows
        self.context = model.cache.context
        self._comm = comm
        self._embed = embed
        self._vocab = [shard.vocab for shard in shards]
        self._payload = np.zeros(_payload_bytes(self.max_rows, self.max_rows, self.config.width), np.uint8)

    def forward(self, rows: Sequence[Row], wanted: Sequence[int]) -> StepResult:
        """Computes up to `max_rows` rows; the logits are of the rows whose numbers are wanted.

        Rows of one slot stand together and continue what the slot holds.
        """
        started, traffic, kernels = time.perf_counter(), self._comm.traffic, self.model.kernel_seconds
        step = Step(
            np.array([row.slot for row in rows], np.int64),
            np.array([row.position for row in rows], np.int64),
            np.array(wanted, np.int64),
        )
        embedded = self._embed([row.id for row in rows])
        self._tell(Message.FORWARD, len(rows), len(wanted))
        if self._comm.size > 1:
            self._comm.broadcast(_write_payload(self._payload, step, embedded))
        self.model.buffers.x[: len(rows)] = embedded
        logits = self._gather(self.model.forward(step))
        spent = self._comm.traffic - traffic
        cost = StepCost(
            time.perf_counter() - started,
            self.model.kernel_seconds - kernels,
            spent.seconds,
            spent.sent_bytes,
            spent.received_bytes,
            len(rows),
        )
        return StepResult(logits, cost)

    def cut(self, slot: int, length: int) -> None:
        """Forgets the positions of a slot from `length` on, on all ranks."""
        self._tell(Message.CUT, slot, length)
        self.model.cache.cut(slot, length)

    def memory(self) -> list[tuple[int, int]]:
        """(private bytes, peak resident bytes) of every rank, now."""
        self._tell(Message.REPORT)
        reports = [np.empty(2, np.int64) for _ in range(self._comm.size)]
        self._comm.gather(_memory_report(), reports)
        return [(int(private), int(peak)) for private, peak in reports]

    def read_bytes_per_s(self) -> float:
        """How fast all ranks together stream memory, each its part of a buffer over 1 GB; the best of some tries."""
        self._tell(Message.READ)
        seconds = np.empty((self._comm.size, READ_TRIES), np.float64)
        self._comm.gather(_read_seconds(self.model, self._comm), list(seconds))
        return READ_BYTES / float(seconds.max(axis=0).min())

    def stop(self) -> None:
        """Ends `serve` on all other ranks."""
        self._tell(Message.STOP)

    def _tell(self, kind: Message, first: int = 0, second: int = 0) -> None:
        self._comm.broadcast_idle(np.array([kind, first, second, 0], np.int64))

    def _gather(self, own: Floats) -> Floats:
        """[W, V / N] of every rank, side by side."""
        if len(own) == 0:
            return np.empty((0, self.config.vocab_size), np.float32)
        if self._comm.size == 1:
            return own[:, : self.config.vocab_size].copy()
        parts = [np.empty((len(own), len(part)), np.float32) for part in self._vocab]
        self._comm.gather(np.ascontiguousarray(own[:, : len(self._vocab[0])]), parts)
        return np.concatenate(parts, axis=1)  # [W, V]


def serve(model: RankModel, comm: MeteredComm, shard: Shard) -> None:
    """On the other ranks: computes what the root says until it says stop."""
    header = np.zeros(4, np.int64)
    max_rows, width = model.buffers.max_rows, model.config.width
    payload = np.zeros(_payload_bytes(max_rows, max_rows, width), np.uint8)
    while True:
        comm.broadcast_idle(header)
        kind, first, second, _ = header.tolist()
        match Message(kind):
            case Message.STOP:
                return
            case Message.CUT:
                model.cache.cut(first, second)
            case Message.REPORT:
                comm.gather(_memory_report(), None)
            case Message.READ:
                comm.gather(_read_seconds(model, comm), None)
            case Message.FORWARD:
                message = payload[: _payload_bytes(first, second, width)]
                comm.broadcast(message)
                step, embedded = _read_payload(message, first, second)
                model.buffers.x[:first] = embedded.reshape(first, width)
                logits = model.forward(step)
                if second:
                    comm.gather(np.ascontiguousarray(logits[:, : len(shard.vocab)]), None)


def _memory_report() -> NDArray[np.int64]:
    return np.array([private_bytes(), peak_rss_bytes()], np.int64)


def _read_seconds(model: RankModel, comm: MeteredComm) -> NDArray[np.float64]:
    return np.array(model.read_seconds(READ_BYTES // comm.size, comm.barrier), np.float64)


def _payload_bytes(n_rows: int, n_wanted: int, width: int) -> int:
    return 8 * (2 * n_rows + n_wanted) + 4 * n_rows * width


def _write_payload(buffer: NDArray[np.uint8], step: Step, embedded: Floats) -> NDArray[np.uint8]:
    n_rows, n_wanted = len(step.slots), len(step.wanted)
    n_words = 2 * n_rows + n_wanted
    buffer[: 8 * n_words].view(np.int64)[:] = np.concatenate([step.slots, step.positions, step.wanted])
    end = 8 * n_words + embedded.nbytes
    buffer[8 * n_words : end].view(np.float32)[:] = embedded.reshape(-1)
    return buffer[:end]


def _read_payload(message: NDArray[np.uint8], n_rows: int, n_wanted: int) -> tuple[Step, Floats]:
    n_words = 2 * n_rows + n_wanted
    words = message[: 8 * n_words].view(np.int64)
    step = Step(words[:n_rows], words[n_rows : 2 * n_rows], words[2 * n_rows :])
    return step, message[8 * n_words :].view(np.float32)
