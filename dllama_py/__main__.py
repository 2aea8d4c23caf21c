"""The door of the program: under an MPI launcher first a watcher, then, as its child, the rank itself.

Nothing is imported here before that choice, so that the watcher stays small and starts at once.
"""

import os
import signal
import sys


def main() -> None:
    """Console script `dllama` and `python -m dllama_py`; ends the process with the program's exit code."""
    from dllama_py.cluster.streams import open_closed_streams
    from dllama_py.cluster.watcher import is_wanted, watch
    from dllama_py.transport.environment import launched_rank

    open_closed_streams()
    if is_wanted():
        sys.exit(watch())

    interrupt = signal.getsignal(signal.SIGINT)
    if interrupt is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # an exception while libraries are half loaded helps nobody
    try:
        from dllama_py.cli import main as run
    except ModuleNotFoundError as missing:
        if str(missing.name).startswith("dllama_py"):
            raise
        sys.exit(_explain_missing(str(missing.name)))

    signal.signal(signal.SIGINT, interrupt)
    code = run()
    if launched_rank(os.environ) is not None:
        _leave(code)
    sys.exit(code)


def _leave(code: int) -> None:
    """Without taking the interpreter apart, for half a second: a rank that froze meanwhile would hold the job, and
    nobody who could tell is left. What C libraries do at their end is done: MPICH tells its launcher then."""
    import ctypes

    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:  # nobody reads; the usual way reports that
        return
    ctypes.CDLL(None).exit(code)


def _explain_missing(name: str) -> int:
    """An interpreter without our packages is usually the wrong one."""
    sys.stderr.write(
        f"error: {sys.executable} has no package {name}; activate the environment (. .venv/bin/activate), "
        "or make it with `make install`\n"
    )
    return 2


if __name__ == "__main__":
    main()
