"""Signs between ranks as messages of MPI. They go through the whole job: who waits in one part of it may be asked by
another."""

from functools import cache

from dllama_py.transport.mpi_library import MPI


@cache
def _all_ranks() -> MPI.Intracomm:
    """Of the job, for signs alone. It is never freed: at the end a sign may be on its way that nobody takes any more,
    and MPICH calls that an error of what is freed, COMM_WORLD among it."""
    return MPI.COMM_WORLD.Dup()


class MpiPost:
    """See silence.Post. Kinds are tags. All ranks make their first one at once."""

    def __init__(self) -> None:
        self._ranks = _all_ranks()
        self._status = MPI.Status()
        self._sign = (bytearray(1), 1, MPI.BYTE)  # says nothing

    def put(self, kind: int, to: int, /) -> None:
        """See silence.Post."""
        self._ranks.Isend(self._sign, to, kind).Test()  # that completes what is so short

    def take(self, kind: int, source: int | None, /) -> int | None:
        """See silence.Post."""
        if not self._ranks.Iprobe(MPI.ANY_SOURCE if source is None else source, kind, self._status):
            return None
        other = self._status.Get_source()
        self._ranks.Recv(self._sign, other, kind)
        return other
