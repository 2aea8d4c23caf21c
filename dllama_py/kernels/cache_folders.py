"""Folders of compiled kernels beside each other: which of them are in use, and which may go. Knows nothing of kernels.

Every process that uses a folder holds a shared lock on a file in it until it ends; the system frees the lock of one
that dies. Whoever removes a folder has the lock for itself while the folder gets another name. So a process that comes
in that moment finds its file gone, and begins anew.
"""

import fcntl
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path

KEPT = 8  # beside the one that is new: other versions, and other CPUs on a shared disk
_IN_USE = "in_use"
_NAME = re.compile(r"[0-9a-f]{16}")  # of ours; others may keep things in the same place
_GONE = ".gone"


def hold(folder: Path) -> bool:
    """Keeps the folder, made if need be, from being removed while this process lives. -> whether it is new.

    OSError where it cannot be written.
    """
    path = folder / _IN_USE
    while True:
        with suppress(FileExistsError):  # also raised where it was there and is gone; all else is met below
            folder.mkdir(parents=True)
        is_new = not path.exists()
        try:
            lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)  # closed by the system, when the process ends
        except FileNotFoundError:  # removed since the line above
            continue
        fcntl.flock(lock, fcntl.LOCK_SH)
        if _is_open(lock, path):
            os.utime(lock)
            return is_new
        os.close(lock)


def prune(place: Path) -> None:
    """Removes the folders in this place that were longest not used, but for a few, and never one that is held."""
    with suppress(OSError):
        found = [path for path in place.iterdir() if _NAME.fullmatch(path.name) and not path.is_symlink()]
        for folder in sorted(found, key=_last_used_s, reverse=True)[KEPT + 1 :]:
            _remove(folder)
        for rest in place.glob(f"*{_GONE}"):  # also of a process that died while it removed it
            if _NAME.fullmatch(rest.stem):
                shutil.rmtree(rest, ignore_errors=True)


def _remove(folder: Path) -> None:
    path = folder / _IN_USE
    with suppress(OSError):  # held, gone already, or not ours to change
        lock = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_open(lock, path):
                folder.rename(folder.with_name(folder.name + _GONE))
        finally:
            os.close(lock)


def _is_open(lock: int, path: Path) -> bool:
    """Whether the open file is still the one at that place."""
    try:
        return os.path.samestat(os.fstat(lock), path.stat())
    except FileNotFoundError:
        return False


def _last_used_s(folder: Path) -> float:
    for path in (folder / _IN_USE, folder):
        with suppress(OSError):
            return path.stat().st_mtime
    return 0.0
