"""Which world this process belongs to: the one its launcher made, or one of its own.

A launcher that the MPI library does not understand gives N worlds of one, each of which would answer by itself at
full speed; the sizes that launchers leave in the environment, or DLLAMA_EXPECT_RANKS, expose that.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

from dllama_py.errors import ClusterError, UsageError
from dllama_py.transport.comm import Comm, SoloComm
from dllama_py.transport.environment import launched_rank, launched_size
from dllama_py.transport.failure import AgreedExit, AgreedFailure, abort_on_exception, agreed
from dllama_py.transport.heartbeat import heartbeat
from dllama_py.transport.versions import check_same_versions
from dllama_py.transport.watched import JOINED, PARTED, tell_watcher

EXPECT = "DLLAMA_EXPECT_RANKS"


@contextmanager
def joined_world(environment: Mapping[str, str] = os.environ) -> Iterator[Comm]:
    """The world of all ranks under an MPI launcher, else a world of one, which needs no MPI.

    ClusterError when MPI is missing, its world has not the expected size, or its ranks run different versions;
    UsageError for a second time in an MPI job. An exception inside ends every rank. At the end all ranks part, also
    where they have agreed on a failure; one that is missing then is told, and ends every rank as well.
    """
    comm = SoloComm() if launched_rank(environment) is None else _open_mpi()
    with abort_on_exception(comm), heartbeat(comm), _watcher_told():
        try:
            with agreed(comm):
                check_size(comm.size, environment)
            check_same_versions(comm)
            yield comm
        except (AgreedFailure, AgreedExit):
            comm.farewell()
            raise
        comm.farewell()


@contextmanager
def _watcher_told() -> Iterator[None]:
    """Inside, the ranks miss each other, until they part; outside only its watcher can miss this one."""
    tell_watcher(JOINED)
    try:
        yield
    finally:
        tell_watcher(PARTED)


def check_size(size: int, environment: Mapping[str, str]) -> None:
    """Compare a world's size with what the launcher and the user said it would be."""
    launched = launched_size(environment)
    if launched is not None and launched != size:
        raise ClusterError(
            f"the launcher started {launched} ranks, but MPI gives each a world of {size}: mpirun and the MPI library "
            "are of different makes; use the mpirun of this environment (.venv/bin/mpirun)"
        )
    wanted = environment.get(EXPECT) or str(size)
    if wanted != str(size):
        raise ClusterError(
            f"this is a world of {size}, but {EXPECT} says {wanted}: start it with mpirun -np {wanted}, "
            "or unset the variable"
        )


def _open_mpi() -> Comm:
    try:
        from dllama_py.transport.mpi import MpiComm
        from dllama_py.transport.mpi_library import has_ended
    except (ImportError, RuntimeError) as error:
        raise ClusterError(
            f"started by an MPI launcher, but MPI cannot be loaded ({str(error).splitlines()[0]}): {_cure()}"
        ) from error
    if has_ended():
        raise UsageError("this process has left its job, which has ended; open one engine a job, for all that it does")
    return MpiComm()


def _cure() -> str:
    """What to do about a missing MPI library. Where PyPI has no mpich for a system, pip may install an empty 0.0.0."""
    try:
        found = version("mpich")
    except PackageNotFoundError:
        return "pip install mpich"
    if found == "0.0.0":
        return "the mpich 0.0.0 that is installed is an empty package; install the system's MPI (apt install mpich)"
    return f"mpich {found} is installed: unset MPI4PY_LIBMPI if it is set, else pip install --force-reinstall mpich"
