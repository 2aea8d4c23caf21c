"""A world carried by MPI.

Only the buffer calls of mpi4py are used. Messages above a limit go in pieces, since the count of a classic MPI call
is a signed 32-bit number and some libraries still stop there.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NoReturn

import numpy as np

from dllama_py.errors import ClusterError
from dllama_py.transport.comm import Buffer, Comm, SoloComm, pieces_of
from dllama_py.transport.farewell import part
from dllama_py.transport.hosts import FACTS_BYTES, Host, decoded, encoded, own_host, told_apart
from dllama_py.transport.mpi_library import MPI, OWNER, end_mpi, explained, lost_touch, too_long, wrong_length
from dllama_py.transport.mpi_post import MpiPost
from dllama_py.transport.mpi_request import MpiRequest
from dllama_py.transport.silence import Signs, patience_of
from dllama_py.transport.tree import children_of, parent_of
from dllama_py.transport.waiting import Waiter
from dllama_py.transport.watched import PARTED, tell_watcher
from dllama_py.transport.wires import make_wire
from dllama_py.troubleshooting import with_row
from dllama_py.wire import Trouble, Wire, WireWord

CHUNK_BYTES = 1 << 30
REQUEST_SPIN_S = 0.0002  # a stage of a pipeline waits for as long as the others compute
TAG, REQUEST_TAG = 7, 10  # signs have others
POLLS_PER_LOOK = 64
OWNER_S = 1.0  # for the other thread to leave the library
TURN_S = 3.0  # longer than it takes a rank that gives up to end the job


def _no_end(patience_s: float) -> ClusterError:
    return ClusterError(
        f"all ranks are done, but MPI has not ended for {patience_s:.0f} s: a host is frozen or its link is cut; look "
        "at all of them"
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """Some ranks of a world, with the first one's number in the job, as messages call it."""

    ranks: MPI.Intracomm
    first_rank: int
    hosts: tuple[Host, ...]
    signs: Signs


class MpiComm:
    """The ranks of one mpirun job, or a part of them. `chunk_bytes` is the longest single message. `patience_s`: how
    long a rank waits for one that gives no sign of life, in seconds; 0 for ever; None takes it from the environment.
    """

    def __init__(
        self,
        chunk_bytes: int = CHUNK_BYTES,
        patience_s: float | None = None,
        part: "_Part | None" = None,
    ) -> None:
        self._world = part.ranks if part else MPI.COMM_WORLD
        self._first_rank = part.first_rank if part else 0
        self.status = MPI.Status()
        self._chunk_bytes = chunk_bytes
        self._patience_s = patience_of(os.environ) if patience_s is None else patience_s
        self._signs = part.signs if part else Signs(MpiPost(), self._patience_s)
        self._steps, self._waiters = Waiter(), dict[int, Waiter]()  # for steps, and for messages of each rank
        self._is_in_step = False
        self._waited_for = (0, 0)  # by compiled code: a number of a message, and a rank
        self._has_parted = False
        self.rank = self._world.Get_rank()
        self.size = self._world.Get_size()
        self.hosts = part.hosts if part else self._gather_hosts()

    @cached_property
    def wire(self) -> Wire:
        return make_wire(
            ctypes.CDLL(MPI.__file__),  # and what it is linked with
            {
                WireWord.WORLD: MPI._handleof(self._world),
                WireWord.BYTE: MPI._handleof(MPI.BYTE),
                WireWord.TAG: TAG,
            },
            self._look_for_compiled_code,
            self._explain,
            OWNER,
        )

    def _look_for_compiled_code(self, partner: int) -> None:
        self._is_in_step = True
        waited_for = (self.wire[WireWord.MESSAGES], partner)
        if waited_for != self._waited_for:
            self._waited_for = waited_for
            self._signs.begin(self._first_rank + partner)
        self._look_round(partner)

    def _explain(self, wire: Wire) -> ClusterError:
        """Of a failed call, or a message of another length."""
        detail = wire[WireWord.DETAIL]
        if wire[WireWord.TROUBLE] == Trouble.LENGTH:
            return wrong_length(self._first_rank + wire[WireWord.PARTNER], detail, wire[WireWord.EXPECTED])
        if MPI.Get_error_class(detail) == MPI.ERR_TRUNCATE:
            return too_long()
        return lost_touch("exchange", MPI.Get_error_string(detail))

    def _gather_hosts(self) -> tuple[Host, ...]:
        facts = np.zeros((self.size, FACTS_BYTES), np.uint8)
        own = np.frombuffer(encoded(own_host()), np.uint8)
        self._world.Allgather((own, FACTS_BYTES, MPI.BYTE), (facts, FACTS_BYTES, MPI.BYTE))
        return told_apart([decoded(each.tobytes()) for each in facts])

    @explained
    def send(self, buffer: Buffer, to: int) -> None:
        for chunk in pieces_of(buffer, self._chunk_bytes):
            leaving = self._world.Isend((chunk, chunk.nbytes, MPI.BYTE), to, TAG)
            self.wait_idle(leaving, to if self._is_in_step else None)

    @explained
    def recv(self, buffer: Buffer, source: int) -> None:
        for chunk in pieces_of(buffer, self._chunk_bytes):
            arriving = self._world.Irecv((chunk, chunk.nbytes, MPI.BYTE), source, TAG)
            self.wait_idle(arriving, source if self._is_in_step else None)
            self._check_length(chunk.nbytes)

    @explained
    def exchange(self, send: Buffer, receive: Buffer, partner: int) -> None:
        self._is_in_step = True
        chunks, given = (pieces_of(buffer, self._chunk_bytes) for buffer in (receive, send))
        arriving = [self._world.Irecv((chunk, chunk.nbytes, MPI.BYTE), partner, TAG) for chunk in chunks]
        leaving = [self._world.Isend((chunk, chunk.nbytes, MPI.BYTE), partner, TAG) for chunk in given]
        for request, chunk in zip(arriving, chunks, strict=True):
            self._spin(request, partner)
            self._check_length(chunk.nbytes)
        for request in leaving:
            self._spin(request, partner)

    @explained
    def start_send(self, buffer: Buffer, to: int) -> MpiRequest:
        request = self._world.Isend((buffer, buffer.nbytes, MPI.BYTE), to, REQUEST_TAG)
        return MpiRequest(self, request, to, buffer.nbytes)

    @explained
    def start_receive(self, buffer: Buffer, source: int) -> MpiRequest:
        request = self._world.Irecv((buffer, buffer.nbytes, MPI.BYTE), source, REQUEST_TAG)
        return MpiRequest(self, request, source, waiter=self._waiters.setdefault(source, Waiter(REQUEST_SPIN_S)))

    @explained
    def broadcast(self, buffer: Buffer, root: int = 0) -> None:
        for chunk in pieces_of(buffer, self._chunk_bytes):
            self._pass_on(chunk, root, self._spin)

    @explained
    def broadcast_idle(self, buffer: Buffer, root: int = 0) -> None:
        self._signs.look_now_and_then()
        self._is_in_step = False
        for chunk in pieces_of(buffer, self._chunk_bytes):
            self._pass_on(chunk, root, partial(self.wait_idle, waiter=self._steps))

    def _pass_on(self, chunk: Buffer, root: int, wait: Callable[[MPI.Request], None]) -> None:
        """MPI's own broadcast, begun and tested, takes 140 us where its code is not in the caches."""
        message = (chunk, chunk.nbytes, MPI.BYTE)
        parent = parent_of(self.rank, root, self.size)
        if parent is not None:
            wait(self._world.Irecv(message, parent, TAG))
            self._check_length(chunk.nbytes)
        children = children_of(self.rank, root, self.size)
        leaving = [self._world.Isend(message, child, TAG) for child in children]
        for child, request in zip(children, leaving, strict=True):
            self._spin(request, child)

    @explained
    def gather(self, send: Buffer, receive: Sequence[Buffer] | None, root: int = 0) -> None:
        if self.rank != root:
            self.send(send, root)
            return
        if receive is None:
            raise ValueError("the root gathers into one buffer a rank")
        receive[root][...] = send
        for source in range(self.size):
            if source != root:
                self.recv(receive[source], source)

    @explained
    def barrier(self) -> None:
        self.wait_idle(self._world.Ibarrier())

    @explained
    def part(self, ranks: range) -> Comm:
        if len(ranks) == 1:
            return SoloComm()
        self._meet(ranks)
        group = self._world.Create_group(self._world.Get_group().Incl(list(ranks)))
        part = _Part(group, self._first_rank + ranks.start, self.hosts[ranks.start : ranks.stop], self._signs)
        return MpiComm(self._chunk_bytes, self._patience_s, part)

    def _meet(self, ranks: range) -> None:
        """All of them are there: what MPI does next waits without looking round."""
        word = np.zeros(1, np.uint8)
        if self.rank != ranks.start:
            self.send(word, ranks.start)
            self.recv(word, ranks.start)
            return
        for call in (self.recv, self.send):
            for other in ranks[1:]:
                call(word, other)

    def miss_others(self) -> None:
        others = range(1, self.size) if self.rank == 0 else range(1)
        self._signs.miss_always({other: self.hosts[other].name for other in others})

    def look_round(self) -> None:
        if not OWNER.acquire(blocking=False):
            return
        try:
            self._look_beside()
        finally:
            OWNER.release()

    @explained
    def _look_beside(self) -> None:
        if not self._has_parted:
            self._signs.look_round()

    @explained
    def farewell(self) -> None:
        self._has_parted = True
        part(self._signs, self.rank, [host.name for host in self.hosts])
        tell_watcher(PARTED)
        end_mpi(self._patience_s and self._patience_s + self.rank * TURN_S, self._tell_of_no_end)

    def _tell_of_no_end(self) -> None:
        sys.stderr.write(f"\nrank {self.rank} on {self.hosts[self.rank]}: {with_row(_no_end(self._patience_s))}\n")
        sys.stderr.flush()

    def abort(self, code: int) -> NoReturn:
        OWNER.acquire(timeout=OWNER_S)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the caller has said why; the library would add a riddle
        self._world.Abort(code)
        os._exit(code)  # for libraries whose abort returns

    def _look_round(self, partner: int | None) -> None:
        """Part of every long wait. ClusterError when the partner, who must come, seems lost."""
        self._signs.look_round()
        if partner is not None:
            self._signs.miss(self._first_rank + partner, self.hosts[partner].name)

    def _begin(self, partner: int | None) -> None:
        """A long wait for it."""
        if partner is not None:
            self._signs.begin(self._first_rank + partner)

    def look_now_and_then(self) -> None:
        """Of a rank that may be computing all the time: its messages are there when it asks for them."""
        self._signs.look_now_and_then()

    def _check_length(self, expected_bytes: int) -> None:
        if (received := self.status.Get_count(MPI.BYTE)) != expected_bytes:
            raise wrong_length(self._first_rank + self.status.Get_source(), received, expected_bytes)

    def _spin(self, request: MPI.Request, partner: int | None = None) -> None:
        """Until the request is done, leaving the core to whoever else wants it."""
        polls = 0
        while not request.Test(self.status):
            os.sched_yield()
            polls += 1
            if polls == POLLS_PER_LOOK:
                self._begin(partner)
            if polls % POLLS_PER_LOOK == 0:
                self._look_round(partner)

    def wait_idle(self, request: MPI.Request, partner: int | None = None, waiter: Waiter | None = None) -> None:
        """Asleep most of the time, so that an idle rank leaves its core. `waiter`: knows how long that took before."""
        waiter = waiter or Waiter()
        waiter.begin()
        has_begun = False
        while not request.Test(self.status):
            if waiter.pause():
                if not has_begun:
                    has_begun = True
                    self._begin(partner)
                self._look_round(partner)
        waiter.end()
