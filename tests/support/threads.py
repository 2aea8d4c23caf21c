"""A world whose ranks are threads of the test: the distributed laws run in plain pytest, without MPI."""

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np

from dllama_py.transport.comm import Buffer, Comm

Result = TypeVar("Result")
DEADLINE_S = 60.0


class ThreadComm:
    """One rank; `mail[source][to]` carries copies of the bytes."""

    def __init__(
        self, rank: int, size: int, mail: list[list["queue.Queue[Buffer]"]], meeting: threading.Barrier
    ) -> None:
        self.rank = rank
        self.size = size
        self.hosts = ("here",) * size
        self._mail = mail
        self._meeting = meeting

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


def run_ranks(size: int, work: Callable[[Comm], Result]) -> list[Result]:
    """Run `work(comm)` on every rank of a world of threads; -> results by rank. A failing rank fails the call."""
    mail: list[list[queue.Queue[Buffer]]] = [[queue.Queue() for _ in range(size)] for _ in range(size)]
    meeting = threading.Barrier(size)
    results: list[Any] = [None] * size
    failures: list[BaseException] = []

    def body(rank: int) -> None:
        try:
            results[rank] = work(ThreadComm(rank, size, mail, meeting))
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
