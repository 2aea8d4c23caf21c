"""Messages of MPI that are under way."""

from typing import TYPE_CHECKING

from dllama_py.transport.mpi_library import MPI, explained
from dllama_py.transport.waiting import Waiter

if TYPE_CHECKING:
    from dllama_py.transport.mpi import MpiComm


class MpiRequest:
    """A message under way from or to a partner."""

    __slots__ = ("_comm", "_is_done", "_is_received", "_partner", "_request", "_waiter", "n_bytes")

    def __init__(
        self,
        comm: "MpiComm",
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
        self._comm.look_now_and_then()
        if not self._is_done:
            self._comm.wait_idle(self._request, None if patient else self._partner, self._waiter)
            self._finish()

    def _finish(self) -> None:
        self._is_done = True
        if self._is_received:
            self.n_bytes = self._comm.status.Get_count(MPI.BYTE)

    @explained
    def cancel(self) -> None:
        if self._request != MPI.REQUEST_NULL:  # which it is when it is done or has failed
            self._request.Cancel()
            self._request.Wait()
