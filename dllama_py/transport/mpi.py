"""A world carried by MPI; the only door to mpi4py.

Only the buffer calls of mpi4py are used. Messages above a limit go in pieces, since the count of a classic MPI call
is a signed 32-bit number and some libraries still stop there.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Concatenate, NoReturn, ParamSpec

import mpi4py
import numpy as np

from dllama_py.errors import ClusterError
from dllama_py.transport.comm import Buffer, PeerLost

mpi4py.rc.thread_level = "serialized"  # one thread owns MPI, which saves the library its locks

from mpi4py import MPI  # noqa: E402 - initialises MPI with the settings above

CHUNK_BYTES = 1 << 30
SPIN_S = 0.002
FIRST_SLEEP_S = 0.00005
LONGEST_SLEEP_S = 0.005
NAME_BYTES = 256
TAG = 7

Arguments = ParamSpec("Arguments")


def _explained(
    method: Callable[Concatenate["MpiComm", Arguments], None],
) -> Callable[Concatenate["MpiComm", Arguments], None]:
    """Turn a failed MPI call into PeerLost."""

    @wraps(method)
    def call(self: "MpiComm", /, *args: Arguments.args, **kwargs: Arguments.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except MPI.Exception as error:
            reason = error.Get_error_string().splitlines()[0]
            raise PeerLost(f"lost touch with another rank during {method.__name__}: {reason}") from error

    return call


class MpiComm:
    """The ranks of one mpirun job. `chunk_bytes` is the longest single message."""

    def __init__(self, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._world = MPI.COMM_WORLD
        self._status = MPI.Status()
        self._chunk_bytes = chunk_bytes
        self.rank = self._world.Get_rank()
        self.size = self._world.Get_size()
        self.hosts = self._gather_hosts()

    def _gather_hosts(self) -> tuple[str, ...]:
        name = np.array(MPI.Get_processor_name().encode(), f"S{NAME_BYTES}")
        names = np.empty(self.size, name.dtype)
        self._world.Allgather((name, NAME_BYTES, MPI.BYTE), (names, NAME_BYTES, MPI.BYTE))
        return tuple(host.decode() for host in names.tolist())

    @_explained
    def send(self, buffer: Buffer, to: int) -> None:
        for chunk in self._chunks(buffer):
            self._world.Send((chunk, chunk.nbytes, MPI.BYTE), to, TAG)

    @_explained
    def recv(self, buffer: Buffer, source: int) -> None:
        for chunk in self._chunks(buffer):
            _wait_idle(self._world.Irecv((chunk, chunk.nbytes, MPI.BYTE), source, TAG), self._status)
            self._check_length(chunk.nbytes)

    @_explained
    def exchange(self, send: Buffer, receive: Buffer, partner: int) -> None:
        if send.nbytes > self._chunk_bytes or receive.nbytes > self._chunk_bytes:
            self._exchange_chunks(send, receive, partner)
            return
        self._world.Sendrecv(
            (send, send.nbytes, MPI.BYTE),
            partner,
            TAG,
            (receive, receive.nbytes, MPI.BYTE),
            partner,
            TAG,
            self._status,
        )
        self._check_length(receive.nbytes)

    def _exchange_chunks(self, send: Buffer, receive: Buffer, partner: int) -> None:
        """All pieces are under way at once; MPI keeps those of one direction in order."""
        requests = [self._world.Irecv((chunk, chunk.nbytes, MPI.BYTE), partner, TAG) for chunk in self._chunks(receive)]
        requests += [self._world.Isend((chunk, chunk.nbytes, MPI.BYTE), partner, TAG) for chunk in self._chunks(send)]
        MPI.Request.Waitall(requests)

    @_explained
    def broadcast(self, buffer: Buffer, root: int = 0) -> None:
        for chunk in self._chunks(buffer):
            self._world.Bcast((chunk, chunk.nbytes, MPI.BYTE), root)

    @_explained
    def broadcast_idle(self, buffer: Buffer, root: int = 0) -> None:
        for chunk in self._chunks(buffer):
            _wait_idle(self._world.Ibcast((chunk, chunk.nbytes, MPI.BYTE), root), self._status)

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
        _wait_idle(self._world.Ibarrier(), self._status)

    def abort(self, code: int) -> NoReturn:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the caller has said why; the library would add a riddle
        self._world.Abort(code)
        os._exit(code)  # for libraries whose abort returns

    def _chunks(self, buffer: Buffer) -> Iterator[Buffer]:
        """The buffer in messages; an empty buffer is one empty message."""
        if not buffer.flags.c_contiguous:
            raise ValueError("only contiguous buffers travel")
        if buffer.nbytes <= self._chunk_bytes:
            yield buffer
            return
        flat = buffer.reshape(-1).view(np.uint8)
        for start in range(0, flat.size, self._chunk_bytes):
            yield flat[start : start + self._chunk_bytes]

    def _check_length(self, expected_bytes: int) -> None:
        if (received := self._status.Get_count(MPI.BYTE)) != expected_bytes:
            raise ClusterError(
                f"rank {self._status.Get_source()} sent {received} bytes where {expected_bytes} were expected: "
                "the ranks run different programs or settings; install the same version on every host"
            )


def _wait_idle(request: MPI.Request, status: MPI.Status) -> None:
    """Spin for a moment, as within a token; then sleep in growing steps, so that an idle rank leaves its core."""
    spin_until = time.monotonic() + SPIN_S
    while not request.Test(status):
        if time.monotonic() > spin_until:
            break
        os.sched_yield()
    else:
        return
    sleep_s = FIRST_SLEEP_S
    while not request.Test(status):
        time.sleep(sleep_s)
        sleep_s = min(sleep_s * 1.25, LONGEST_SLEEP_S)
