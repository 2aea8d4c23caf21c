"""Other processes that compile beside this one, for a host whose rank has cores to spare.

A process and not a thread, as numba compiles one function at a time in a process; started anew and not forked, as a
rank has threads and MPI. It ends with its work, or as soon as the process that started it closes its input or dies.
"""

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from dllama_py.kernels.functions import Compilable

_START = "import sys; sys.path[:] = {path!r}; from dllama_py.kernels.compile_helper import main; main()"


@contextmanager
def helpers(functions: Sequence[Compilable], n_helpers: int) -> Iterator[None]:
    """While the block runs, so many processes compile what is left of these; where none can be started, none does."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        with suppress(OSError):
            for _ in range(n_helpers):
                started.append(_start(pickle.dumps(list(functions))))
        yield
    finally:
        for process in started:
            with suppress(OSError):
                process.communicate()  # closes its input


def _start(work: bytes) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [sys.executable, "-c", _START.format(path=sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError):
        process.stdin.write(work)
        process.stdin.flush()
    return process


def main() -> None:
    """Compiles what it is told of, as long as there is something that no other process has taken."""
    functions: list[Compilable] = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    try:
        while functions:
            each = next((each for each in functions if not each.file.is_there() and each.file.claim()), None)
            if each is None:
                break
            functions.remove(each)
            each.make()
    finally:
        os._exit(0)  # Python's own end aborts while the thread reads; what failed here fails where it is told, too


def _leave_with_parent() -> None:
    """At once, whatever is being compiled: its lock goes with the process."""
    sys.stdin.buffer.read()
    os._exit(0)
