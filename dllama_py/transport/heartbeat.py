"""Signs of life of a rank, whatever it does: it may compile for minutes, load, or wait for its user.

A thread, because who compiles or reads sends nothing; it uses the same messages as a rank that waits (`silence.py`), in
moments in which nobody else is inside the library. A frozen process has no thread that runs, so it is missed. Most of
compiling is done without Python's lock, and of the rest the lock's turns are short.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from dllama_py.errors import DllamaError
from dllama_py.transport.comm import Comm
from dllama_py.transport.failure import end_all

BEAT_S = 0.25


@contextmanager
def heartbeat(comm: Comm) -> Iterator[None]:
    """Inside, ranks miss each other whatever they do; one that is lost is told, and ends all. All ranks are inside."""
    if comm.size == 1:
        yield
        return
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(BEAT_S):
            try:
                comm.look_round()
            except DllamaError as error:
                end_all(comm, error)

    thread = threading.Thread(target=beat, name="heartbeat", daemon=True)
    comm.miss_others()
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
