"""Where compiled kernels are kept: a folder per kernel sources, numba version and CPU.

numba looks only at the source file of the function itself, so a change in a module it calls would go unseen,
and code compiled for one CPU must never be loaded on another. A folder named by a hash of all three is right
in both cases. One process of a host compiles a kernel while the others sleep on a file lock (numba issues 4807,
10128: its cache is unsafe while several processes fill it). Folders of other versions go when a new one is made.
"""

import fcntl
import hashlib
import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from dllama_py import float_types
from dllama_py.errors import UsageError
from dllama_py.home import home_folder
from dllama_py.kernels.cache_folders import hold, prune

VARIABLE = "NUMBA_CACHE_DIR"


def _folder() -> Path:
    """The cache folder of this code on this CPU, within the user's NUMBA_CACHE_DIR if there is one."""
    return Path(os.environ.get(VARIABLE) or home_folder() / "kernels") / _fingerprint()


def point_numba_at_it() -> None:
    """Must run before numba is imported. A folder that is there is held from now on; a new one when it is needed."""
    os.environ[VARIABLE] = str(FOLDER)
    if FOLDER.exists():
        _hold()


@contextmanager
def compiling(name: str) -> Iterator[None]:
    """Around the compilation of one kernel: the first process of a host does it while others that want it sleep.

    Whoever comes later finds a mark and reads the cache without waiting. The system frees the lock of a process that
    dies. UsageError if the cache folder cannot be written.
    """
    _hold()
    mark = FOLDER / f"{name}.ready"
    if mark.exists():
        yield
        return
    with _locked():
        yield
        mark.touch()


@cache
def _hold() -> None:
    """Until this process ends; the first that ever uses the folder removes old ones. Once is enough."""
    with suppress(OSError):  # what cannot be written is told when something has to be written
        if hold(FOLDER):
            prune(FOLDER.parent)


@contextmanager
def _locked() -> Iterator[None]:
    try:
        FOLDER.mkdir(parents=True, exist_ok=True)
        with open(FOLDER / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield  # numba writes what it compiles, also to a disk that gets full
    except OSError as error:
        raise UsageError(
            f"{FOLDER}: compiled kernels cannot be kept there ({error.strerror}); "
            "set DLLAMA_HOME to a folder that can be written"
        ) from None


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for source in [Path(float_types.__file__), *sorted(Path(__file__).parent.glob("*.py"))]:
        digest.update(source.read_bytes())
    for fact in (version("numba"), version("llvmlite"), platform.python_version(), _cpu()):
        digest.update(fact.encode())
    return digest.hexdigest()[:16]


def _cpu() -> str:
    """CPU model and features, and numba's overrides of them."""
    overrides = [os.environ.get(name, "") for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")]
    wanted = ("model name", "flags", "Features", "CPU part")
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    facts = sorted({line for line in lines if line.startswith(wanted)})
    return "\n".join([platform.machine(), *facts, *overrides])


FOLDER = _folder()
