"""A Comm that counts what passes through it and through its wire: bytes of this rank, seconds spent in messages."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from dllama_py.transport.comm import Buffer, Comm, Request
from dllama_py.wire import Wire


@dataclass(frozen=True, slots=True)
class Traffic:
    """Totals of one rank since its start; subtract two to get what lies between."""

    sent_bytes: int = 0
    received_bytes: int = 0
    seconds: float = 0.0
    messages: int = 0

    def __add__(self, other: "Traffic") -> "Traffic":
        return Traffic(
            self.sent_bytes + other.sent_bytes,
            self.received_bytes + other.received_bytes,
            self.seconds + other.seconds,
            self.messages + other.messages,
        )

    def __sub__(self, earlier: "Traffic") -> "Traffic":
        return Traffic(
            self.sent_bytes - earlier.sent_bytes,
            self.received_bytes - earlier.received_bytes,
            self.seconds - earlier.seconds,
            self.messages - earlier.messages,
        )


class MeteredComm:
    """Wraps a Comm and keeps totals. A wait for the next step (broadcast_idle, barrier) is not counted as time.

    A broadcast counts, at the root, one copy a receiver; the library may in truth relay it.
    """

    def __init__(self, comm: Comm) -> None:
        self._comm = comm
        self.rank = comm.rank
        self.size = comm.size
        self.hosts = comm.hosts
        self._sent_bytes = 0
        self._received_bytes = 0
        self._seconds = 0.0
        self._messages = 0

    @property
    def traffic(self) -> Traffic:
        sent_bytes, received_bytes, messages, nanoseconds = self._comm.wire.totals() if self.size > 1 else (0, 0, 0, 0)
        return Traffic(
            self._sent_bytes + sent_bytes,
            self._received_bytes + received_bytes,
            self._seconds + 1e-9 * nanoseconds,
            self._messages + messages,
        )

    @property
    def wire(self) -> Wire:
        return self._comm.wire

    def _count(self, sent_bytes: int, received_bytes: int, started: float | None = None) -> None:
        self._sent_bytes += sent_bytes
        self._received_bytes += received_bytes
        self._messages += 1
        if started is not None:
            self._seconds += time.perf_counter() - started

    def send(self, buffer: Buffer, to: int) -> None:
        started = time.perf_counter()
        self._comm.send(buffer, to)
        self._count(buffer.nbytes, 0, started)

    def recv(self, buffer: Buffer, source: int) -> None:
        started = time.perf_counter()
        self._comm.recv(buffer, source)
        self._count(0, buffer.nbytes, started)

    def exchange(self, send: Buffer, receive: Buffer, partner: int) -> None:
        started = time.perf_counter()
        self._comm.exchange(send, receive, partner)
        self._count(send.nbytes, receive.nbytes, started)

    def start_send(self, buffer: Buffer, to: int) -> "MeteredRequest":
        self._count(buffer.nbytes, 0)
        return MeteredRequest(self._comm.start_send(buffer, to), self._count_wait)

    def start_receive(self, buffer: Buffer, source: int) -> "MeteredRequest":
        return MeteredRequest(self._comm.start_receive(buffer, source), self._count_wait, self._count)

    def _count_wait(self, seconds: float) -> None:
        self._seconds += seconds

    def broadcast(self, buffer: Buffer, root: int = 0) -> None:
        started = time.perf_counter()
        self._comm.broadcast(buffer, root)
        self._count_broadcast(buffer, root, started)

    def broadcast_idle(self, buffer: Buffer, root: int = 0) -> None:
        self._comm.broadcast_idle(buffer, root)
        self._count_broadcast(buffer, root, None)

    def _count_broadcast(self, buffer: Buffer, root: int, started: float | None) -> None:
        if self.rank == root:
            self._count(buffer.nbytes * (self.size - 1), 0, started)
        else:
            self._count(0, buffer.nbytes, started)

    def gather(self, send: Buffer, receive: Sequence[Buffer] | None, root: int = 0) -> None:
        started = time.perf_counter()
        self._comm.gather(send, receive, root)
        if receive is None or self.rank != root:
            self._count(send.nbytes, 0, started)
        else:
            self._count(0, sum(buffer.nbytes for buffer in receive) - receive[root].nbytes, started)

    def barrier(self) -> None:
        self._comm.barrier()

    def part(self, ranks: range) -> Comm:
        return self._comm.part(ranks)

    def miss_others(self) -> None:
        self._comm.miss_others()

    def look_round(self) -> None:
        self._comm.look_round()

    def farewell(self) -> None:
        self._comm.farewell()

    def abort(self, code: int) -> NoReturn:
        self._comm.abort(code)


class MeteredRequest:
    """A request whose bytes count when they have come, and whose waits count unless they are patient."""

    def __init__(
        self,
        request: Request,
        count_wait: Callable[[float], None],
        count_received: Callable[[int, int], None] | None = None,
    ) -> None:
        self._request = request
        self._count_wait = count_wait
        self._count_received = count_received

    @property
    def n_bytes(self) -> int:
        return self._request.n_bytes

    def is_done(self) -> bool:
        done = self._request.is_done()
        if done:
            self._received()
        return done

    def wait(self, patient: bool = False) -> None:
        started = time.perf_counter()
        self._request.wait(patient)
        if not patient:
            self._count_wait(time.perf_counter() - started)
        self._received()

    def cancel(self) -> None:
        self._request.cancel()

    def _received(self) -> None:
        if self._count_received is not None:
            self._count_received(0, self.n_bytes)
            self._count_received = None
