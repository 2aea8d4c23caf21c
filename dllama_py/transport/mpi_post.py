"""Signs between ranks as messages of MPI. They go through the whole job: who waits in one part of it may be asked by
another."""

from dllama_py.transport.mpi_library import MPI


class MpiPost:
    """See silence.Post. Kinds are tags."""

    def __init__(self) -> None:
        self._status = MPI.Status()
        self._sign = (bytearray(1), 1, MPI.BYTE)  # says nothing

    def put(self, kind: int, to: int, /) -> None:
        """See silence.Post."""
        MPI.COMM_WORLD.Isend(self._sign, to, kind).Test()  # that completes what is so short

    def take(self, kind: int, source: int | None, /) -> int | None:
        """See silence.Post."""
        if not MPI.COMM_WORLD.Iprobe(MPI.ANY_SOURCE if source is None else source, kind, self._status):
            return None
        other = self._status.Get_source()
        MPI.COMM_WORLD.Recv(self._sign, other, kind)
        return other
