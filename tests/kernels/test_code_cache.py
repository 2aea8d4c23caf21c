# python -m pytest tests/kernels/test_code_cache.py
"""Compiled code is kept once a host, by what it depends on; nobody compiles without its lock; what is damaged counts as
absent; and neither the environment nor numba's own cache is touched."""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dllama_py.errors import UsageError
from dllama_py.kernels import code_cache, source_hash
from dllama_py.kernels.code_cache import Store
from dllama_py.kernels.functions import compiled_on_demand

PACKAGE = Path(source_hash.__file__).parents[1]
# Compiles one kernel and one function that Python calls, and counts what numba had to compile.
USER = """
import sys
sys.path.insert(0, sys.argv[1])
from numba.core import event
counted = event.RecordingListener()
event.register("numba:compile", counted)
from dllama_py.kernels.crc32c import crc32c
from dllama_py.kernels.elementwise import add
import dllama_py
assert dllama_py.__file__.startswith(sys.argv[1]), dllama_py.__file__
assert crc32c(0, 0) == 0 and add.address
print(len(counted.buffer))
"""


@compiled_on_demand("uint32(uint32[::1])")
def last_of(words: np.ndarray) -> np.uint32:
    """The last of some words."""
    return words[words.size - 1]


def stored(tmp_path: Path) -> Store:
    return Store(tmp_path / "home" / "0123456789abcdef", tmp_path / "temporary" / "0123456789abcdef")


def clone(folder: Path) -> Path:
    """Of the package's code, at another place and with other times."""
    shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in folder.rglob("*.py"):
        os.utime(path, (0, 0))
    return folder


def n_compiled(place: Path, home: Path, **more: str) -> int:
    """Functions that a program compiles which uses the package in that place."""
    env = os.environ | {"DLLAMA_HOME": str(home), **more}
    done = subprocess.run(
        [sys.executable, "-c", USER, str(place)], cwd=place, env=env, capture_output=True, text=True, timeout=280
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_clones_of_equal_sources_compile_once_and_nothing_lies_beside_the_sources(tmp_path: Path) -> None:
    first, second = clone(tmp_path / "a"), clone(tmp_path / "b")
    assert n_compiled(first, tmp_path / "home") > 0
    assert n_compiled(second, tmp_path / "home") == 0
    assert not [path for path in first.rglob("*") if path.suffix in (".nbi", ".nbc", ".code")]


def test_a_child_of_a_process_that_imported_us_finds_the_same_folder() -> None:
    code = (
        "import os; before = dict(os.environ); from dllama_py.kernels.crc32c import crc32c; assert crc32c(0, 0) == 0\n"
    )
    child = "from dllama_py.kernels.code_cache import store; print(store().folder)"
    code += (
        f"assert dict(os.environ) == before; import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=280, check=True)
    assert told.stdout.strip() == str(code_cache.store().folder), told.stderr


def test_functions_of_a_host_program_keep_their_own_cache(tmp_path: Path) -> None:
    (tmp_path / "guest.py").write_text(
        "import dllama_py.kernels.elementwise, numba\n"
        "@numba.njit(cache=True)\n"
        "def twice(x):\n    return 2 * x\n"
        "assert twice(3) == 6\nprint(twice.stats.cache_path)\n"
    )
    for own in (None, tmp_path / "own"):
        env = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
        env |= {"PYTHONPATH": str(PACKAGE.parent)} | ({"NUMBA_CACHE_DIR": str(own)} if own else {})
        done = subprocess.run([sys.executable, "guest.py"], cwd=tmp_path, env=env, capture_output=True, text=True)
        assert Path(done.stdout.strip()).is_relative_to(own or tmp_path / "__pycache__"), done.stderr


def test_the_hash_goes_by_every_module_that_the_kernels_need(tmp_path: Path) -> None:
    code = "import sys; from pathlib import Path\n"
    code += "import dllama_py.kernels as room, pkgutil, importlib\n"
    code += "for m in pkgutil.walk_packages(room.__path__, room.__name__ + '.'): importlib.import_module(m.name)\n"
    code += "print(*[m.__file__ for n, m in sorted(sys.modules.items()) if n.startswith('dllama_py.')], sep='\\n')"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    used = {Path(line) for line in told.stdout.splitlines()}
    assert len(used) > 30
    assert used <= set(source_hash.sources())


@pytest.mark.parametrize(
    "spoil",
    [lambda data: b"", lambda data: data[:-1], lambda data: bytes(len(data)), lambda data: data[:-1] + b"\0"],
    ids=["empty", "cut", "zeros", "changed"],
)
def test_what_is_damaged_counts_as_absent_and_is_replaced(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    store = stored(tmp_path)
    store.write("a", b"code\1")
    assert store.read("a") == b"code\1"
    assert store.folder is not None
    file = store.folder / "a.code"
    file.write_bytes(spoil(file.read_bytes()))
    assert store.read("a") is None
    store.write("a", b"code\1")
    assert store.read("a") == b"code\1"


def test_a_lock_is_for_one_and_goes_with_its_file(tmp_path: Path) -> None:
    store, other = stored(tmp_path), stored(tmp_path)
    lock, another = store.lock("a"), other.lock("b")
    assert lock is not None and another is not None
    with another, lock:
        assert other.lock("a", wait=False) is None
    again = other.lock("a", wait=False)
    assert again is not None
    again.close()


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES])
def test_a_home_that_cannot_be_written_is_replaced_by_a_temporary_folder_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    store = stored(tmp_path)
    refuse(monkeypatch, tmp_path / "home", number)
    store.write("a", b"code")
    assert store.folder == tmp_path / "temporary" / "0123456789abcdef"
    assert stored(tmp_path).read("a") == b"code"
    assert store.note == (
        f"{tmp_path / 'home'}: {os.strerror(number)}; compiled kernels are in {tmp_path / 'temporary'} for now"
    )


def test_with_no_folder_at_all_every_process_compiles_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = stored(tmp_path)
    refuse(monkeypatch, tmp_path, errno.EROFS)
    store.write("a", b"code")
    assert (store.folder, store.read("a"), store.lock("a")) == (None, None, None)
    assert store.note == f"{tmp_path / 'home'}: Read-only file system; every process compiles its kernels anew"


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_temporary_folder_that_others_may_write_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int
) -> None:
    (tmp_path / "temporary").mkdir()
    (tmp_path / "temporary").chmod(mode)
    store = stored(tmp_path)
    refuse(monkeypatch, tmp_path / "home", errno.EROFS)
    assert store.folder is None


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_home_is_told_with_the_folder_and_nothing_half_written_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    store = stored(tmp_path)
    store.write("a", b"code")

    def write_some(self: Path, data: bytes) -> int:
        with open(self, "wb") as file:
            file.write(data[:10])
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "write_bytes", write_some)
    with pytest.raises(UsageError, match=f"kept there .{os.strerror(number)}.; free some megabytes there, or set "):
        store.write("b", b"code")
    assert store.read("a") == b"code"
    assert sorted(path.name for path in (tmp_path / "home" / "0123456789abcdef").iterdir()) == ["a.code", "in_use"]
    monkeypatch.undo()
    refuse(monkeypatch, tmp_path / "home", number)
    with pytest.raises(UsageError, match="kept there"):
        stored(tmp_path).write("b", b"code")


def test_the_first_call_leaves_what_other_processes_load() -> None:
    name = f"{__name__}.last_of"
    assert last_of(np.arange(5, dtype=np.uint32)) == 4
    assert last_of.name == name
    assert code_cache.store().read(name) is not None


def test_other_types_are_refused_rather_than_compiled_without_a_file() -> None:
    last_of(np.arange(5, dtype=np.uint32))
    with pytest.raises(TypeError, match="No matching definition"):
        last_of(np.arange(5, dtype=np.uint16))


def refuse(monkeypatch: pytest.MonkeyPatch, place: Path, number: int) -> None:
    """Folders there cannot be held."""
    held = code_cache.hold

    def hold(folder: Path) -> Any:
        if folder.is_relative_to(place):
            raise OSError(number, os.strerror(number))
        return held(folder)

    monkeypatch.setattr(code_cache, "hold", hold)
