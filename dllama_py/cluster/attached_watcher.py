"""The watcher of a program that uses the engine: a small process beside the rank, where none stands above it.

The program belongs to somebody else, so it is not started anew and its signals are left alone: the watcher is its
child, and is there from the first call of the engine until the ranks have parted. Should the program end before that,
in whatever way, the watcher does what the one above a rank does (`watcher.py`). The launcher does not clean up as long
as the watcher has its socket.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from dllama_py.cluster.rank_state import Change, await_change, handle_of, how_it_ended
from dllama_py.cluster.watcher import ENDING, conclude, is_wanted, tell, tell_frozen
from dllama_py.errors import ClusterError
from dllama_py.transport.environment import launched_rank
from dllama_py.transport.watched import has_parted, tell_through

PACKAGE_HOME = Path(__file__).parents[2]
LEFT_ALONE = (
    "the program has ended before its engine, and the other ranks wait for it; open the engine on rank 0, with `with`, "
    "or serve on no rank"
)
UNKNOWN = "the program has ended before its engine, and nobody tells of what; dmesg tells if it was for want of memory"

_attached: "tuple[subprocess.Popen[bytes], int] | None" = None  # the process, and the pipe that it reads from


def attach() -> None:
    """Starts the watcher of this process, if a launcher started that and none is there; once."""
    global _attached
    if _attached is not None or not is_wanted():
        return
    control = os.environ.get("PMI_FD", "")
    listening, telling = os.pipe()
    command = [sys.executable, "-m", __name__, str(os.getpid()), str(listening)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[listening, *([int(control)] if control.isdecimal() else [])],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE_HOME), os.environ.get("PYTHONPATH", "")])},
    )
    os.close(listening)
    _attached = process, telling
    tell_through(telling)


def detach() -> None:
    """If the ranks have parted, as the watcher was told: what the program does from now on is its own affair."""
    global _attached
    if _attached is None or not has_parted():
        return
    process, telling = _attached
    _attached = None
    tell_through(None)
    os.close(telling)
    process.wait()


def watch(rank: int, pipe: int) -> int:
    """Until the ranks have parted or the rank is gone; -> the exit code of the job."""
    sent: set[int] = set()
    for number in ENDING:  # they come to the whole group, and what they mean the program decides
        signal.signal(number, lambda number, frame: sent.add(number))
    alive = handle_of(rank)
    change = await_change(rank, alive, pipe, until_parted=True) if os.getppid() == rank else Change.ENDED
    if change is Change.PARTED:
        return 0
    if change is Change.FROZEN:
        return tell_frozen()
    code = how_it_ended(rank, alive)
    if not code:
        tell(f"rank {launched_rank(os.environ)} on {os.uname().nodename}: {UNKNOWN if code is None else LEFT_ALONE}")
        code = ClusterError.exit_code
    return conclude(code, sent)


if __name__ == "__main__":
    sys.exit(watch(int(sys.argv[1]), int(sys.argv[2])))
