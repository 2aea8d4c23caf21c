"""The only door to mpi4py: MPI is initialised here, its errors are explained here, and it ends here."""

import os
import sys
import threading
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import mpi4py

from dllama_py.errors import ClusterError
from dllama_py.transport.comm import PeerLost
from dllama_py.transport.silence import Silence

_IS_OURS = "mpi4py.MPI" not in sys.modules  # else a script has imported it before, and may want more of it
mpi4py.rc.thread_level = "serialized"  # one thread owns MPI, which saves the library its locks

from mpi4py import MPI  # noqa: E402 - initialises MPI with the settings above

__all__ = ["MPI", "OWNER", "end_mpi", "explained", "has_ended", "lost_touch", "too_long", "wrong_length"]

OWNER = threading.RLock()  # held by the thread that is inside the library, or in compiled code that calls it
LOOK_S = 0.1
MISMATCH = "the ranks run different programs or settings; install the same version on every host"

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def lost_touch(where: str, reason: str) -> PeerLost:
    """`reason`: the library's own words."""
    return PeerLost(f"lost touch with another rank during {where}: {reason.splitlines()[0]}")


def wrong_length(rank: int, received: int, expected: int) -> ClusterError:
    """Lengths in bytes."""
    return ClusterError(f"rank {rank} sent {received} bytes where {expected} were expected: {MISMATCH}")


def too_long() -> ClusterError:
    """The library has cut a message short."""
    return ClusterError(f"a message came that is longer than expected: {MISMATCH}")


def explained(method: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Of a method that calls MPI: it owns the library meanwhile, and what fails becomes an error that names its cause
    as far as it is known."""

    @wraps(method)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            with OWNER:
                return method(*args, **kwargs)
        except MPI.Exception as error:
            if error.Get_error_class() == MPI.ERR_TRUNCATE:
                raise too_long() from error
            raise lost_touch(method.__name__, error.Get_error_string()) from error

    return call


def has_ended() -> bool:
    """Whether `end_mpi` has been here: MPI cannot begin again."""
    return MPI.Is_finalized()


def end_mpi(patience_s: float, give_up: Callable[[], None]) -> None:
    """What all ranks do at once; the library waits for each of them without an end. After so many seconds (0: never)
    `give_up` is called, by another thread, and then this process ends with the exit code of a ClusterError.
    """
    if not _IS_OURS:
        return
    ended = threading.Event()

    def watch() -> None:
        silence = Silence()
        while not ended.wait(LOOK_S):
            if silence.look() >= patience_s:
                give_up()
                os._exit(ClusterError.exit_code)  # the library is inside its last call: it cannot be asked to abort

    if patience_s:
        threading.Thread(target=watch, daemon=True).start()
    MPI.Finalize()
    ended.set()
