"""A world carried by MPI; the only door to mpi4py.

Only the buffer calls of mpi4py are used. Messages above a limit go in pieces, since the count of a classic MPI call
is a signed 32-bit number and some libraries still stop there.
"""

import ctypes
import os
from collections.abc import Callable, Sequence
from functools import cached_property, partial, wraps
from typing import NoReturn, ParamSpec, TypeVar

import mpi4py
import numpy as np

from dllama_py.errors import ClusterError
from dllama_py.transport.comm import Buffer, Comm, PeerLost, SoloComm, pieces_of
from dllama_py.transport.silence import Signs, Silence, patience_of
from dllama_py.transport.tree import children_of, parent_of
from dllama_py.transport.waiting import Waiter
from dllama_py.transport.wires import make_wire
from dllama_py.wire import Trouble, Wire, WireWord

mpi4py.rc.thread_level = "serialized"  # one thread owns MPI, which saves the library its locks

from mpi4py import MPI  # noqa: E402 - initialises MPI with the settings above

CHUNK_BYTES = 1 << 30
REQUEST_SPIN_S = 0.0002  # a stage of a pipeline waits for as long as the others compute
NAME_BYTES = 256
TAG, REQUEST_TAG = 7, 10  # 8 and 9 are signs of life
POLLS_PER_LOOK = 64
MISMATCH = "the ranks run different programs or settings; install the same version on every host"

TOO_LONG = f"a message came that is longer than expected: {MISMATCH}"

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _lost_touch(where: str, reason: str) -> str:
    return f"lost touch with another rank during {where}: {reason.splitlines()[0]}"


def _wrong_length(rank: int, received: int, expected: int) -> ClusterError:
    return ClusterError(f"rank {rank} sent {received} bytes where {expected} were expected: {MISMATCH}")


def _explained(method: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Turn a failed MPI call into an error that names its cause as far as it is known."""

    @wraps(method)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return method(*args, **kwargs)
        except MPI.Exception as error:
            if error.Get_error_class() == MPI.ERR_TRUNCATE:
                raise ClusterError(TOO_LONG) from error
            raise PeerLost(_lost_touch(method.__name__, error.Get_error_string())) from error

    return call


class _Post:
    """Questions and answers go through the whole job: who waits in one part of it may be asked by another."""

    def __init__(self) -> None:
        self._status = MPI.Status()
        self._sign = (bytearray(1), 1, MPI.BYTE)  # says nothing

    def put(self, tag: int, to: int) -> None:
        MPI.COMM_WORLD.Isend(self._sign, to, tag).Test()  # that completes what is so short

    def take(self, tag: int, source: int | None) -> int | None:
        if not MPI.COMM_WORLD.Iprobe(MPI.ANY_SOURCE if source is None else source, tag, self._status):
            return None
        other = self._status.Get_source()
        MPI.COMM_WORLD.Recv(self._sign, other, tag)
        return other


class MpiComm:
    """The ranks of one mpirun job, or a part of them. `chunk_bytes` is the longest single message. `patience_s`: how
    long a rank within a step waits for one that gives no sign of life, in seconds; 0 for ever; None takes it from the
    environment. `first_rank`: of a part its first one's number in the job, as messages call it.
    """

    def __init__(
        self,
        chunk_bytes: int = CHUNK_BYTES,
        patience_s: float | None = None,
        ranks: MPI.Intracomm = MPI.COMM_WORLD,
        first_rank: int = 0,
    ) -> None:
        self._world = ranks
        self._first_rank = first_rank
        self.status = MPI.Status()
        self._chunk_bytes = chunk_bytes
        self._patience_s = patience_of(os.environ) if patience_s is None else patience_s
        self._signs = Signs(_Post(), self._patience_s)
        self._steps, self._waiters = Waiter(), dict[int, Waiter]()  # for steps, and for messages of each rank
        self._is_in_step = False
        self._waited_for, self._silence = (0, 0), Silence()  # by compiled code
        self.rank = self._world.Get_rank()
        self.size = self._world.Get_size()
        self.hosts = self._gather_hosts()

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
            return _wrong_length(self._first_rank + wire[WireWord.PARTNER], detail, wire[WireWord.EXPECTED])
        if MPI.Get_error_class(detail) == MPI.ERR_TRUNCATE:
            return ClusterError(TOO_LONG)
        return PeerLost(_lost_touch("exchange", MPI.Get_error_string(detail)))

    def _gather_hosts(self) -> tuple[str, ...]:
        name = np.array(MPI.Get_processor_name().encode(), f"S{NAME_BYTES}")
        names = np.empty(self.size, name.dtype)
        self._world.Allgather((name, NAME_BYTES, MPI.BYTE), (names, NAME_BYTES, MPI.BYTE))
        return tuple(host.decode() for host in names.tolist())

    @_explained
    def send(self, buffer: Buffer, to: int) -> None:
        for chunk in pieces_of(buffer, self._chunk_bytes):
            self._world.Send((chunk, chunk.nbytes, MPI.BYTE), to, TAG)

    @_explained
    def recv(self, buffer: Buffer, source: int) -> None:
        for chunk in pieces_of(buffer, self._chunk_bytes):
            arriving = self._world.Irecv((chunk, chunk.nbytes, MPI.BYTE), source, TAG)
            self.wait_idle(arriving, source if self._is_in_step else None)
            self._check_length(chunk.nbytes)

    @_explained
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

    @_explained
    def start_send(self, buffer: Buffer, to: int) -> "MpiRequest":
        request = self._world.Isend((buffer, buffer.nbytes, MPI.BYTE), to, REQUEST_TAG)
        return MpiRequest(self, request, to, buffer.nbytes)

    @_explained
    def start_receive(self, buffer: Buffer, source: int) -> "MpiRequest":
        request = self._world.Irecv((buffer, buffer.nbytes, MPI.BYTE), source, REQUEST_TAG)
        return MpiRequest(self, request, source, waiter=self._waiters.setdefault(source, Waiter(REQUEST_SPIN_S)))

    @_explained
    def broadcast(self, buffer: Buffer, root: int = 0) -> None:
        for chunk in pieces_of(buffer, self._chunk_bytes):
            self._pass_on(chunk, root, self._spin)

    @_explained
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
        leaving = [self._world.Isend(message, child, TAG) for child in children_of(self.rank, root, self.size)]
        for request in leaving:
            self._spin(request)

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

    @_explained
    def barrier(self) -> None:
        self.wait_idle(self._world.Ibarrier())

    def part(self, ranks: range) -> Comm:
        if len(ranks) == 1:
            return SoloComm()
        group = self._world.Get_group().Incl(list(ranks))
        return MpiComm(self._chunk_bytes, self._patience_s, self._world.Create_group(group), ranks.start)

    def abort(self, code: int) -> NoReturn:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the caller has said why; the library would add a riddle
        self._world.Abort(code)
        os._exit(code)  # for libraries whose abort returns

    def _look_round(self, silence: Silence, partner: int | None) -> None:
        """Part of every long wait. ClusterError when the partner, who must come, seems lost."""
        self._signs.answer()
        if partner is not None:
            self._signs.miss(silence, self._first_rank + partner, self.hosts[partner])

    def answer_others(self) -> None:
        """Of a rank that may be computing all the time: its messages are there when it asks for them."""
        self._signs.answer_now_and_then()

    def _check_length(self, expected_bytes: int) -> None:
        if (received := self.status.Get_count(MPI.BYTE)) != expected_bytes:
            raise _wrong_length(self._first_rank + self.status.Get_source(), received, expected_bytes)

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

    @_explained
    def is_done(self) -> bool:
        if not self._is_done and self._request.Test(self._comm.status):
            self._finish()
        return self._is_done

    @_explained
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
