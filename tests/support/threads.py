"""A world whose ranks are threads of the test: the distributed laws run in plain pytest, without MPI."""

import ctypes
import queue
import threading
import time
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NoReturn, TypeVar

import numpy as np

from dllama_py.transport.comm import Buffer, Comm
from dllama_py.transport.hosts import Host
from dllama_py.transport.wires import make_wire
from dllama_py.wire import Wire, WireWord

Result = TypeVar("Result")
DEADLINE_S = 60.0


class ThreadLibrary:
    """MPI's four functions over the mail of one rank, for compiled code to call; a request is the sender or NOBODY."""

    NOBODY = -1

    def __init__(self, comm: "ThreadComm") -> None:
        self._comm = comm
        self._receiving: dict[int, tuple[int, int]] = {}  # source -> buffer, bytes
        self._received_bytes = 0
        word, number = ctypes.c_int64, ctypes.c_int
        post = ctypes.CFUNCTYPE(number, word, word, word, word, word, word, ctypes.POINTER(word))
        self.MPI_Isend = post(self._isend)
        self.MPI_Irecv = post(self._irecv)
        self.MPI_Test = ctypes.CFUNCTYPE(number, ctypes.POINTER(word), ctypes.POINTER(number), word)(self._test)
        self.MPI_Get_count = ctypes.CFUNCTYPE(number, word, word, ctypes.POINTER(number))(self._get_count)

    def _isend(self, buffer: int, n_bytes: int, kind: int, to: int, tag: int, world: int, request: Any) -> int:
        message = np.frombuffer(ctypes.string_at(buffer, n_bytes), np.uint8)
        self._comm.send(message, to)
        request[0] = self.NOBODY
        return 0

    def _irecv(self, buffer: int, n_bytes: int, kind: int, source: int, tag: int, world: int, request: Any) -> int:
        self._receiving[source] = buffer, n_bytes
        request[0] = source
        return 0

    def _test(self, request: Any, flag: Any, status: int) -> int:
        flag[0] = 1
        if request[0] == self.NOBODY:
            return 0
        try:
            message = self._comm.mail_from(request[0]).get_nowait()
        except queue.Empty:
            flag[0] = 0
            return 0
        buffer, n_bytes = self._receiving.pop(request[0])
        self._received_bytes = message.nbytes
        ctypes.memmove(buffer, message.tobytes(), min(n_bytes, message.nbytes))
        return 0

    def _get_count(self, status: int, kind: int, count: Any) -> int:
        count[0] = self._received_bytes
        return 0


class SentRequest:
    """A message that has been put into the mail."""

    def __init__(self, n_bytes: int) -> None:
        self.n_bytes = n_bytes

    def is_done(self) -> bool:
        return True

    def wait(self, patient: bool = False) -> None:
        pass

    def cancel(self) -> None:
        raise AssertionError("sent")


class AwaitedRequest:
    """A message that some mail will have. Requests of one mail must be asked in the order in which they were made."""

    def __init__(self, mail: "queue.Queue[Buffer]", buffer: Buffer) -> None:
        self._mail = mail
        self._buffer: Buffer | None = buffer
        self.n_bytes = 0

    def is_done(self) -> bool:
        if self._buffer is not None and not self._mail.empty():
            self._take(self._buffer)
        return self._buffer is None

    def wait(self, patient: bool = False) -> None:
        if self._buffer is not None:
            self._take(self._buffer)

    def cancel(self) -> None:
        self._buffer = None

    def _take(self, buffer: Buffer) -> None:
        message = self._mail.get(timeout=DEADLINE_S)
        assert message.nbytes <= buffer.nbytes
        buffer.reshape(-1).view(np.uint8)[: message.nbytes] = message
        self.n_bytes, self._buffer = message.nbytes, None


class ThreadComm:
    """One rank; `mail[source][to]` carries copies of the bytes, `requested` those of `start_send`."""

    def __init__(
        self,
        rank: int,
        size: int,
        mail: list[list["queue.Queue[Buffer]"]],
        requested: list[list["queue.Queue[Buffer]"]],
        meeting: threading.Barrier,
    ) -> None:
        self.rank = rank
        self.size = size
        self.hosts = (Host.named("here"),) * size
        self._mail = mail
        self._requested = requested
        self._meeting = meeting

    @cached_property
    def wire(self) -> Wire:
        started = time.monotonic()

        def look_round(partner: int) -> None:
            if self._meeting.broken or time.monotonic() - started > DEADLINE_S:
                raise TimeoutError(f"rank {self.rank} waits for {partner}")

        self._library = ThreadLibrary(self)
        return make_wire(self._library, {WireWord.TAG: 7}, look_round, _explain)

    def mail_from(self, source: int) -> "queue.Queue[Buffer]":
        return self._mail[source][self.rank]

    def send(self, buffer: Buffer, to: int) -> None:
        assert buffer.flags.c_contiguous
        self._mail[self.rank][to].put(buffer.reshape(-1).view(np.uint8).copy())

    def recv(self, buffer: Buffer, source: int) -> None:
        message = self._mail[source][self.rank].get(timeout=DEADLINE_S)
        assert message.nbytes == buffer.nbytes
        buffer.reshape(-1).view(np.uint8)[...] = message

    def exchange(self, send: Buffer, receive: Buffer, partner: int) -> None:
        self.send(send, partner)
        self.recv(receive, partner)

    def start_send(self, buffer: Buffer, to: int) -> SentRequest:
        self._requested[self.rank][to].put(buffer.reshape(-1).view(np.uint8).copy())
        return SentRequest(buffer.nbytes)

    def start_receive(self, buffer: Buffer, source: int) -> AwaitedRequest:
        return AwaitedRequest(self._requested[source][self.rank], buffer)

    def broadcast(self, buffer: Buffer, root: int = 0) -> None:
        if self.rank != root:
            self.recv(buffer, root)
            return
        for to in range(self.size):
            if to != root:
                self.send(buffer, to)

    broadcast_idle = broadcast

    def gather(self, send: Buffer, receive: Sequence[Buffer] | None, root: int = 0) -> None:
        if self.rank != root:
            self.send(send, root)
            return
        assert receive is not None
        receive[root][...] = send
        for source in range(self.size):
            if source != root:
                self.recv(receive[source], source)

    def barrier(self) -> None:
        self._meeting.wait(DEADLINE_S)

    def abort(self, code: int) -> NoReturn:
        self._meeting.abort()
        raise SystemExit(code)


def _explain(wire: Wire) -> BaseException:
    return AssertionError(f"trouble {wire.words[WireWord.TROUBLE :][:4]}")


def _boxes(size: int) -> list[list["queue.Queue[Buffer]"]]:
    return [[queue.Queue() for _ in range(size)] for _ in range(size)]


def run_ranks(size: int, work: Callable[[Comm], Result]) -> list[Result]:
    """Run `work(comm)` on every rank of a world of threads; -> results by rank. A failing rank fails the call."""
    mail, requested = _boxes(size), _boxes(size)
    meeting = threading.Barrier(size)
    results: list[Any] = [None] * size
    failures: list[BaseException] = []

    def body(rank: int) -> None:
        try:
            results[rank] = work(ThreadComm(rank, size, mail, requested, meeting))
        except BaseException as error:
            failures.append(error)
            meeting.abort()

    threads = [threading.Thread(target=body, args=(rank,), daemon=True) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive() and not failures:
            thread.join(0.02)
    if failures:
        raise failures[0]
    return results
