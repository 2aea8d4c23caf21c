"""A job of which rank 1 goes before the ranks have met: python leave.py EXIT_CODE|SIGNAL (to its watcher)."""

import os
import signal
import sys

from dllama_py.cluster import watcher


def main() -> None:
    if watcher.is_wanted():
        sys.exit(watcher.watch())
    if os.environ["PMI_RANK"] == "1":
        if sys.argv[1].isdecimal():
            sys.exit(int(sys.argv[1]))
        os.kill(os.getppid(), signal.Signals[sys.argv[1]])
        signal.pause()
    from dllama_py.transport.mpi import MpiComm

    MpiComm()


main()
