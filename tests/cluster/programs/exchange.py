"""A rank that exchanges until something happens to it: python exchange.py FOLDER EVENT.

Events: raise, usage, done, done later, done with a late root, wait (for what the test does to it). Rank 2 freezes
itself in `freeze at the end`, and before it is told of the next step in `freeze while idle`.
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from dllama_py.cluster import watcher

if TYPE_CHECKING:
    from dllama_py.transport.comm import Comm


def main() -> None:
    if watcher.is_wanted():
        sys.exit(watcher.watch())
    run(Path(sys.argv[1]), sys.argv[2])


def run(folder: Path, event: str) -> None:
    from dllama_py.transport.failure import AgreedFailure
    from dllama_py.transport.world import joined_world

    try:
        with joined_world() as comm:
            (folder / f"rank{comm.rank}.pid").write_text(str(os.getpid()))
            exchange(comm, event)
    except AgreedFailure as failure:
        sys.stderr.write(f"{failure.error}\n")
        sys.exit(failure.error.exit_code)


def exchange(comm: "Comm", event: str) -> None:
    import numpy as np

    from dllama_py.errors import UsageError
    from dllama_py.transport.failure import agreed

    values, received = np.ones(64, np.float32), np.ones(64, np.float32)
    with agreed(comm):
        if event == "usage" and comm.rank == 0:
            raise UsageError("no such model")
    for distance in [1, 2] * (1000 if event == "done later" else 20_000):
        comm.exchange(values, received, comm.rank ^ distance)
        time.sleep(0.001)
        if event == "raise" and comm.rank == 2:
            raise RuntimeError("a bug in layer 1")
        if event == "exit" and comm.rank == 2:
            sys.exit(5)
        if event.startswith(("done", "freeze")) and event != "done later":
            break
    if event.startswith("freeze") and comm.rank == 2:
        os.kill(os.getpid(), signal.SIGSTOP)
    if event == "freeze while idle":
        comm.broadcast_idle(np.zeros(1 << 20, np.uint8))
    if event == "done with a late root" and comm.rank == 0:
        time.sleep(10)


main()
