"""Where compiled kernels are kept: one file a kernel, in a folder per kernel sources, versions and CPU.

numba's own cache goes by the path of a source and by that file alone, so a second clone would find nothing and a change
in a module that is imported would go unseen; and it is unsafe while several processes fill it (numba issues 4807,
10128). Here the folder is named by a hash of all that the code depends on, so any clone of equal sources finds the
same files. A process that finds none compiles under a lock of that kernel while others that want it wait. Neither the
environment nor numba's settings are touched: a program that imports this package keeps its own cache.
"""

import errno
import fcntl
import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import IO

from dllama_py.errors import UsageError
from dllama_py.home import home_folder
from dllama_py.kernels.cache_folders import hold, prune
from dllama_py.kernels.source_hash import fingerprint

_MAGIC = b"dllama kernel 1\n"
_DIGEST_BYTES = 32
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


class Store:
    """The folder of the user's home and, where that is not to be written, one of this host's temporary files."""

    def __init__(self, home: Path, temporary: Path) -> None:
        self._home, self._temporary = home, temporary
        self._held: set[Path] = set()
        self.note = ""  # for the user: where kernels are kept, if not at home

    def read(self, name: str) -> bytes | None:
        """What was written under that name, whole; None where it is absent or damaged."""
        for folder in (self._home, self._temporary):
            if folder == self._home or _is_private(folder.parent):
                with suppress(OSError):
                    text = _checked((folder / f"{name}.code").read_bytes())
                    if text is not None:
                        self._hold(folder)
                        return text
        return None

    def write(self, name: str, content: bytes) -> None:
        """Whole or not at all, by whoever has the lock of that name. UsageError where there is no room."""
        folder = self.folder
        if folder is None:
            return
        part = folder / f"{name}.{os.getpid()}.part"
        try:
            try:
                part.write_bytes(_MAGIC + hashlib.sha256(content).digest() + content)
                part.replace(folder / f"{name}.code")
            finally:
                with suppress(OSError):
                    part.unlink(missing_ok=True)
        except OSError as error:
            raise _cannot_be_kept(folder, error) from None

    def lock(self, name: str, *, wait: bool = True) -> IO[bytes] | None:
        """An open file that holds the lock of that name until it is closed; None where it is held, or nothing can be
        kept.

        The system frees the lock of a process that dies.
        """
        folder = self.folder
        if folder is None:
            return None
        try:
            lock = open(folder / f"{name}.lock", "ab")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                lock.close()
                return None
            return lock
        except OSError as error:
            raise _cannot_be_kept(folder, error) from None

    @cached_property
    def folder(self) -> Path | None:
        """Where new code goes; None where nothing can be written and every process compiles for itself."""
        try:
            self._open(self._home)
            return self._home
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise _cannot_be_kept(self._home, error) from None
            reason = error.strerror
        try:
            self._temporary.parent.mkdir(mode=0o700, exist_ok=True)
            if _is_private(self._temporary.parent):
                self._open(self._temporary)
                self.note = f"{self._home.parent}: {reason}; compiled kernels are in {self._temporary.parent} for now"
                return self._temporary
        except OSError:
            pass
        self.note = f"{self._home.parent}: {reason}; every process compiles its kernels anew"
        return None

    @property
    def kept_in(self) -> Path:
        """Where more is kept beside the code; a folder that cannot be written, if there is no other."""
        with suppress(UsageError):
            return self.folder or self._home
        return self._home

    def _open(self, folder: Path) -> None:
        """Held, and found to take new files."""
        if hold(folder):
            prune(folder.parent)
        self._held.add(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass

    def _hold(self, folder: Path) -> None:
        """Against removal by others while this process lives; one that cannot be written cannot be removed either."""
        if folder not in self._held:
            self._held.add(folder)
            with suppress(OSError):
                hold(folder)


def _checked(data: bytes) -> bytes | None:
    """What a file holds, if it is whole: after a power cut it may be empty, or full of zeros."""
    start = len(_MAGIC) + _DIGEST_BYTES
    content = data[start:]
    is_whole = data[:start] == _MAGIC + hashlib.sha256(content).digest()
    return content if is_whole else None


def _is_private(folder: Path) -> bool:
    """Whether it is this user's alone: code that others wrote must not run."""
    try:
        facts = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o022


def _cannot_be_kept(folder: Path, error: OSError) -> UsageError:
    advice = "free some megabytes there, or " if error.errno in _NO_ROOM else ""
    return UsageError(
        f"{folder}: compiled kernels cannot be kept there ({error.strerror}); "
        f"{advice}set DLLAMA_HOME to a folder that can be written"
    )


@cache
def store() -> Store:
    """Of this process."""
    name = fingerprint()
    temporary = Path(tempfile.gettempdir()) / f"dllama-py-{os.getuid()}"
    return Store(home_folder() / "kernels" / name, temporary / name)
