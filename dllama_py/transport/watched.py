"""What a rank tells the watcher above or beside it: whether the other ranks miss it by themselves.

Before they have met, and once they have parted, only its watcher can see that it is frozen. Imports next to nothing:
the watcher reads it too.
"""

import os

PIPE = "DLLAMA_WATCHER_PIPE"  # in the rank's environment: the number of the file to write to
JOINED, PARTED = b"j", b"p"

_pipe: int | None = None
_told = b""  # last


def tell_through(pipe: int | None) -> None:
    """From now on; None to nobody."""
    global _pipe, _told
    _pipe, _told = pipe, b""


def has_parted() -> bool:
    """Whether the watcher was told so."""
    return _told == PARTED


def tell_watcher(word: bytes) -> None:
    """Nothing where there is none."""
    global _told
    given = os.environ.pop(PIPE, "")  # a program that this one starts has no such file
    if given.isdecimal():
        tell_through(int(given))
    if _pipe is None:
        return
    try:
        os.write(_pipe, word)
        _told = word
    except OSError:
        pass  # the watcher is gone; the rank does not outlive it
