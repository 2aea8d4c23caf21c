"""The watcher of a program that uses the engine: a small process beside the rank, where none stands above it.

The program belongs to somebody else, so it is not started anew and its signals are left alone: the watcher is its
child, and is there from the first call of the engine until the ranks have parted. Should the program end before that,
in whatever way, the watcher does what the one above a rank does (`watcher.py`). The launcher does not clean up, and
what the program died of can be read, as long as the watcher has the launcher's socket.
"""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from dllama_py.cluster.watcher import ENDING, conclude, is_wanted
from dllama_py.errors import ClusterError
from dllama_py.transport.environment import launched_rank
from dllama_py.troubleshooting import with_row

PACKAGE_HOME = Path(__file__).parents[2]
STATUS_FIELD = 52  # of /proc/PID/stat: how the process ended, as waitpid has it
LEFT_ALONE = (
    "the program has ended before its engine, and the other ranks wait for it; open the engine on rank 0, with `with`, "
    "or serve on no rank"
)

_attached: "tuple[subprocess.Popen[bytes], int] | None" = None  # the process, and the pipe that it listens to


def attach() -> None:
    """Starts the watcher of this process, if a launcher started that and none is there; once."""
    global _attached
    if _attached is not None or not is_wanted():
        return
    control = os.environ.get("PMI_FD", "")
    listening, telling = os.pipe()
    command = [sys.executable, "-m", __name__, str(os.getpid()), str(listening)]
    _attached = (
        subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[listening, *([int(control)] if control.isdecimal() else [])],
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(PACKAGE_HOME), os.environ.get("PYTHONPATH", "")])},
        ),
        telling,
    )
    os.close(listening)


def detach() -> None:
    """The ranks have parted: what the program does from now on is its own affair."""
    global _attached
    if _attached is None:
        return
    watcher, telling = _attached
    _attached = None
    try:
        os.write(telling, b"parted")
    except BrokenPipeError:
        pass  # somebody has ended it
    os.close(telling)
    watcher.wait()


def watch(rank: int, pipe: int) -> int:
    """Until the ranks have parted or the rank is gone; -> the exit code of the job."""
    sent: set[int] = set()
    for number in ENDING:  # they come to the whole group, and what they mean the program decides
        signal.signal(number, lambda number, frame: sent.add(number))
    try:
        alive = os.pidfd_open(rank)
    except (AttributeError, OSError):
        alive = pipe  # its end tells as well, unless the program has children that have it open
    if os.getppid() == rank:
        select.select([alive, pipe], [], [])
        if select.select([pipe], [], [], 0)[0] and os.read(pipe, 1):
            return 0
    code = _how_it_ended(rank)
    if code == 0:
        sys.stderr.write(f"rank {launched_rank(os.environ)} on {os.uname().nodename}: {with_row(LEFT_ALONE)}\n")
        code = ClusterError.exit_code
    return conclude(code, sent)


def _how_it_ended(process: int) -> int:
    """Exit code, or minus the signal's number; 0 where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return os.waitstatus_to_exitcode(int(fields[STATUS_FIELD - 3]))
    except (OSError, IndexError, ValueError):
        return 0


if __name__ == "__main__":
    sys.exit(watch(int(sys.argv[1]), int(sys.argv[2])))
