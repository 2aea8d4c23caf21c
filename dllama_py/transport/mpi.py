"""A world carried by MPI.

Only the buffer calls of mpi4py are used. Messages above a limit go in pieces, since the count of a classic MPI call
is a signed 32-bit number and some libraries still stop there.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import NoReturn

import numpy as np

from dllama_py.errors import ClusterError
from dllama_py.transport.comm import Buffer, Comm, SoloComm, pieces_of
from dllama_py.transport.farewell import part
from dllama_py.transport.hosts import FACTS_BYTES, Host, decoded, encoded, own_host, told_apart
from dllama_py.transport.mpi_library import MPI, end_mpi, explained, lost_touch, too_long, wrong_length
from dllama_py.transport.mpi_post import MpiPost
from dllama_py.transport.silence import Signs, Silence, patience_of
from dllama_py.transport.tree import children_of, parent_of
from dllama_py.transport.waiting import Waiter
from dllama_py.transport.wires import make_wire
from dllama_py.troubleshooting import with_row
from dllama_py.wire import Trouble, Wire, WireWord

CHUNK_BYTES = 1 << 30
REQUEST_SPIN_S = 0.0002  # a stage of a pipeline waits for as long as the others compute
TAG, REQUEST_TAG = 7, 10  # signs have others
POLLS_PER_LOOK = 64
TURN_S = 3.0  # longer than it takes a rank that gives up to end the job


def _no_end(patience_s: float) -> ClusterError:
    return ClusterError(
        f"all ranks are done, but MPI has not ended for {patience_s:.0f} s: a host is frozen or its link is cut; look "
        "at all of them"
    )


class MpiComm:
    """The ranks of one mpirun job, or a part of them. `chunk_bytes` is the longest single message. `patience_s`: how
    long a rank within a step waits for one that gives no sign of life, in seconds; 0 for ever; None takes it from the
    environment. `first_rank`, `hosts`: of a part its first one's number and its hosts, as the job calls them.
    """

    def __init__(
        self,
        chunk_bytes: int = CHUNK_BYTES,
        patience_s: float | None = None,
        ranks: MPI.Intracomm = MPI.COMM_WORLD,
        first_rank: int = 0,
        hosts: tuple[Host, ...] | None = None,
    ) -> None:
        self._world = ranks
        self._first_rank = first_rank
        self.status = MPI.Status()
        self._chunk_bytes = chunk_bytes
        self._patience_s = patience_of(os.environ) if patience_s is None else patience_s
        self._post = MpiPost()
        self._signs = Signs(self._post, self._patience_s)
        self._steps, self._waiters = Waiter(), dict[int, Waiter]()  # for steps, and for messages of each rank
        self._is_in_step = False
        self._waited_for, self._silence = (0, 0), Silence()  # by compiled code
        self.rank = self._world.Get_rank()
        self.size = self._world.Get_size()
        self.hosts = self._gather_hosts() if hosts is None else hosts

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
        )

    def _look_for_compiled_code(self, partner: int) -> None:
        self._is_in_step = True
        waited_for = (self.wire[WireWord.MESSAGES], partner)
        if waited_for != self._waited_for:
            self._waited_for, self._silence = waited_for, Silence()
        self._look_round(self._silence, partner)

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
            self._world.Send((chunk, chunk.nbytes, MPI.BYTE), to, TAG)

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
    def start_send(self, buffer: Buffer, to: int) -> "MpiRequest":
        request = self._world.Isend((buffer, buffer.nbytes, MPI.BYTE), to, REQUEST_TAG)
        return MpiRequest(self, request, to, buffer.nbytes)

    @explained
    def start_receive(self, buffer: Buffer, source: int) -> "MpiRequest":
        request = self._world.Irecv((buffer, buffer.nbytes, MPI.BYTE), source, REQUEST_TAG)
        return MpiRequest(self, request, source, waiter=self._waiters.setdefault(source, Waiter(REQUEST_SPIN_S)))

    @explained
    def broadcast(self, buffer: Buffer, root: int = 0) -> None:
        for chunk in pieces_of(buffer, self._chunk_bytes):
            self._pass_on(chunk, root, self._spin)

    @explained
    def broadcast_idle(self, buffer: Buffer, root: int = 0) -> None:
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

    def part(self, ranks: range) -> Comm:
        if len(ranks) == 1:
            return SoloComm()
        group = self._world.Get_group().Incl(list(ranks))
        world, hosts = self._world.Create_group(group), self.hosts[ranks.start : ranks.stop]
        return MpiComm(self._chunk_bytes, self._patience_s, world, ranks.start, hosts)

    @explained
    def farewell(self) -> None:
        part(self._post, self._signs, self.rank, [host.name for host in self.hosts])
        end_mpi(self._patience_s and self._patience_s + self.rank * TURN_S, self._tell_of_no_end)

    def _tell_of_no_end(self) -> None:
        sys.stderr.write(f"rank {self.rank} on {self.hosts[self.rank]}: {with_row(_no_end(self._patience_s))}\n")
        sys.stderr.flush()

    def abort(self, code: int) -> NoReturn:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the caller has said why; the library would add a riddle
        self._world.Abort(code)
        os._exit(code)  # for libraries whose abort returns

    def _look_round(self, silence: Silence, partner: int | None) -> None:
        """Part of every long wait. ClusterError when the partner, who must come, seems lost."""
        self._signs.answer()
        if partner is not None:
            self._signs.miss(silence, self._first_rank + partner, self.hosts[partner].name)

    def answer_others(self) -> None:
        """Of a rank that may be computing all the time: its messages are there when it asks for them."""
        self._signs.answer_now_and_then()

    def _check_length(self, expected_bytes: int) -> None:
        if (received := self.status.Get_count(MPI.BYTE)) != expected_bytes:
            raise wrong_length(self._first_rank + self.status.Get_source(), received, expected_bytes)

    def _spin(self, request: MPI.Request, partner: int | None = None) -> None:
        """Until the request is done, leaving the core to whoever else wants it."""
        silence: Silence | None = None
        polls = 0
        while not request.Test(self.status):
            os.sched_yield()
            polls += 1
            if polls % POLLS_PER_LOOK == 0:
                silence = silence or Silence()
                self._look_round(silence, partner)

    def wait_idle(self, request: MPI.Request, partner: int | None = None, waiter: Waiter | None = None) -> None:
        """Asleep most of the time, so that an idle rank leaves its core. `waiter`: knows how long that took before."""
        waiter = waiter or Waiter()
        waiter.begin()
        silence: Silence | None = None
        while not request.Test(self.status):
            if waiter.pause():
                silence = silence or Silence()
                self._look_round(silence, partner)
        waiter.end()


class MpiRequest:
    """A message under way from or to a partner."""

    __slots__ = ("_comm", "_is_done", "_is_received", "_partner", "_request", "_waiter", "n_bytes")

    def __init__(
        self,
        comm: MpiComm,
        request: MPI.Request,
        partner: int,
        n_bytes: int | None = None,
        waiter: Waiter | None = None,
    ) -> None:
        self._comm, self._request, self._partner, self._waiter = comm, request, partner, waiter
        self._is_done, self._is_received = False, n_bytes is None
        self.n_bytes = n_bytes or 0

    @explained
    def is_done(self) -> bool:
        if not self._is_done and self._request.Test(self._comm.status):
            self._finish()
        return self._is_done

    @explained
    def wait(self, patient: bool = False) -> None:
        self._comm.answer_others()
        if not self._is_done:
            self._comm.wait_idle(self._request, None if patient else self._partner, self._waiter)
            self._finish()

    def _finish(self) -> None:
        self._is_done = True
        if self._is_received:
            self.n_bytes = self._comm.status.Get_count(MPI.BYTE)

    def cancel(self) -> None:
        if self._request != MPI.REQUEST_NULL:  # which it is when it is done or has failed
            self._request.Cancel()
            self._request.Wait()
