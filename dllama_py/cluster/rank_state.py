"""A rank seen from its watcher: it ends, it parts from the others, or it is frozen while nobody else misses it."""

import fcntl
import os
import select
import struct
from enum import Enum, auto
from pathlib import Path

from dllama_py.errors import UsageError
from dllama_py.transport.silence import patience_of
from dllama_py.transport.watched import JOINED, PARTED

LOOK_S = 0.5
EXIT_FIELD = 52  # of /proc/PID/stat: how the process ended, as waitpid has it
GET_INFO = 0xC040FF0B  # PIDFD_GET_INFO of Linux, with 64 bytes
INFO = struct.Struct("QQ11Ii")  # what is told, ..., how it ended
INFO_EXIT = 8  # in what is told
STOPPED = ("T", "t")  # states of Linux: by a signal, by a debugger


class Change(Enum):
    ENDED = auto()
    PARTED = auto()
    FROZEN = auto()


def await_change(rank: int, alive: int | None, pipe: int, until_parted: bool = False) -> Change:
    """`rank`: its process. `alive`: its `handle_of`. `pipe`: where it tells what `watched` says. `until_parted`: that
    ends the wait as well."""
    sources = [pipe]
    if alive is not None:
        sources.append(alive)
    misses, frozen_s, patience_s = True, 0.0, _patience_s()
    while True:
        ready = select.select(sources, [], [], LOOK_S if misses and patience_s else None)[0]
        if pipe in ready:
            word = os.read(pipe, 1)
            if word == PARTED and until_parted:
                return Change.PARTED
            misses = word != JOINED
            if not word:  # closed: it has ended, or started another program
                sources.remove(pipe)
        if alive in ready or not sources:
            return Change.ENDED
        frozen_s = frozen_s + LOOK_S if misses and not ready and is_stopped(rank) else 0.0
        if frozen_s and frozen_s >= patience_s:
            return Change.FROZEN


def is_stopped(process: int) -> bool:
    """By SIGSTOP, Ctrl-Z or a debugger; False where the system does not tell."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in STOPPED
    except (OSError, IndexError):
        return False


def handle_of(process: int) -> int | None:
    """A file that can be read from once the process has ended; None where the system has no such thing."""
    try:
        return os.pidfd_open(process)
    except (AttributeError, OSError):
        return None


def how_it_ended(process: int, handle: int | None) -> int | None:
    """Exit code, or minus the signal's number, of a process that is no child of this one; None where nobody tells:
    Linux does until its parent has heard of the end, and from 6.15 on also later."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return os.waitstatus_to_exitcode(int(fields[EXIT_FIELD - 3]))
    except (OSError, IndexError, ValueError):
        pass
    try:
        told = INFO.unpack(fcntl.ioctl(handle or -1, GET_INFO, INFO.pack(INFO_EXIT, *[0] * 13)))
    except (OSError, ValueError):
        return None
    return os.waitstatus_to_exitcode(told[-1]) if told[0] & INFO_EXIT else None


def _patience_s() -> float:
    """0 for a wish that cannot be: the rank refuses it."""
    try:
        return patience_of(os.environ)
    except UsageError:
        return 0.0
