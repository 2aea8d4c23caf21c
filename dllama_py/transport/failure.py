"""How a world ends when one of its ranks cannot go on: the cause is told once, and nobody waits for ever."""

import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from dllama_py.errors import ClusterError, DllamaError, UsageError, machine_explained
from dllama_py.transport.comm import Comm, PeerLost
from dllama_py.troubleshooting import with_row

PATIENCE_S = 3.0
STAGGER_S = 0.2  # longer than an abort takes to reach the other ranks
READING_S = 0.1  # in which the launcher reads a line; once it ends the job, it reads no more
INTERRUPTED = 130  # as a shell reports Ctrl-C
OUTPUT_CLOSED = 141  # as a shell reports a SIGPIPE
BUG = 1
WORDS_BYTES = 4096  # of the message that all ranks are told


class AgreedFailure(Exception):
    """All ranks know that one of them cannot go on, and leave; this one has the error that explains it."""

    def __init__(self, error: DllamaError) -> None:
        super().__init__(str(error))
        self.error = error


class AgreedExit(SystemExit):
    """Another rank cannot go on, so all leave, this one quietly. `error`: what that rank said, with its place."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__(code)
        self.error: DllamaError = (ClusterError if code == ClusterError.exit_code else UsageError)(words)


@contextmanager
def abort_on_exception(comm: Comm) -> Iterator[None]:
    """Around all that a rank does after it has joined: an exception is told on standard error and ends every rank.

    A DllamaError gives one line, SystemExit nothing, anything else its traceback. AgreedFailure and AgreedExit pass:
    all ranks leave. In a world of one nothing is caught. A rank that only lost touch with another waits first: the one
    that knows the cause, or the watcher above it, will have ended the job by then. What all ranks meet at once, such as
    a full disk, is told by the lowest.
    """
    if comm.size == 1:
        yield
        return
    try:
        with machine_explained():
            yield
    except (AgreedFailure, AgreedExit, GeneratorExit):
        raise
    except DllamaError as error:
        end_all(comm, error)
    except SystemExit as end:
        comm.abort(_exit_code(end))
    except KeyboardInterrupt:
        comm.abort(INTERRUPTED)
    except BrokenPipeError:
        comm.abort(OUTPUT_CLOSED)
    except BaseException as error:
        _abort(comm, f"{error!r}\n{traceback.format_exc()}", BUG)


def _exit_code(end: SystemExit) -> int:
    """Of one rank, while the others wait for it; told where it is a text, as Python does."""
    if end.code is None or isinstance(end.code, int):
        return end.code or 0
    sys.stderr.write(f"{end.code}\n")
    return BUG


def end_all(comm: Comm, error: DllamaError) -> None:
    """Tells it in one line and ends every rank, from any thread."""
    time.sleep(PATIENCE_S if isinstance(error, PeerLost) else comm.rank * STAGGER_S)
    _abort(comm, f"{with_row(error)}\n", error.exit_code)


def _abort(comm: Comm, text: str, code: int) -> None:
    """Tells it on a line of its own: an answer may stand half written before it."""
    sys.stdout.flush()
    sys.stderr.write(f"\nrank {comm.rank} on {comm.hosts[comm.rank]}: {text}")
    sys.stderr.flush()
    time.sleep(READING_S)
    comm.abort(code)


@contextmanager
def agreed(comm: Comm) -> Iterator[None]:
    """Around a step that all ranks take and that may end in a DllamaError, on one of them or on several.

    If none fails, all go on. Else the lowest failing rank raises AgreedFailure with its own error, and all others
    leave quietly (AgreedExit) with the same exit code. Inside, no rank may wait for another. In a world of one the
    error passes as it is.
    """
    if comm.size == 1:
        yield
        return
    failure: DllamaError | None = None
    try:
        yield
    except DllamaError as error:
        failure = error
    code, rank = _first_failure(comm, failure.exit_code if failure else 0)
    if not code:
        return
    words = _words_of(comm, rank, failure)
    if failure is not None and rank == comm.rank:
        raise AgreedFailure(failure)
    raise AgreedExit(code, words)


def _first_failure(comm: Comm, own_code: int) -> tuple[int, int]:
    """-> (exit code, rank) of the lowest rank that failed; (0, 0) if none did."""
    own = np.array([own_code], np.int64)
    codes = np.zeros((comm.size, 1), np.int64)
    comm.gather(own, list(codes) if comm.rank == 0 else None)
    comm.broadcast_idle(codes)
    failed = np.flatnonzero(codes[:, 0])
    return (int(codes[failed[0], 0]), int(failed[0])) if failed.size else (0, 0)


def _words_of(comm: Comm, rank: int, failure: DllamaError | None) -> str:
    """Why that rank cannot go on, for all: a program at the root cannot read what another rank prints."""
    words = f"rank {rank} on {comm.hosts[rank]}: {failure}".encode(errors="backslashreplace")[:WORDS_BYTES]
    buffer = np.frombuffer(words.ljust(WORDS_BYTES), np.uint8).copy()
    comm.broadcast_idle(buffer, rank)
    return buffer.tobytes().decode(errors="ignore").rstrip()
