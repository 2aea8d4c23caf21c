"""The door of the program: under an MPI launcher first a watcher, then, as its child, the rank itself.

Nothing is imported here before that choice, so that the watcher stays small and starts at once.
"""

import signal
import sys


def main() -> None:
    """Console script `dllama` and `python -m dllama_py`; ends the process with the program's exit code."""
    from dllama_py.cluster.watcher import is_wanted, watch

    if is_wanted():
        sys.exit(watch())

    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # an exception while libraries are half loaded helps nobody
    from dllama_py.cli import main as run

    signal.signal(signal.SIGINT, interrupt)
    sys.exit(run())


if __name__ == "__main__":
    main()
