# python -m pytest tests/kernels/test_cache_folders.py
"""Old folders of compiled kernels go, those in use stay, whoever comes at the same time."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dllama_py.kernels import cache_folders
from dllama_py.kernels.cache_folders import KEPT, hold, prune

HOLD = "import sys; from pathlib import Path; from dllama_py.kernels.cache_folders import hold; "


def folders(place: Path, n: int) -> list[Path]:
    """With a kernel in each, used one minute after the other and by nobody any more."""
    made = [place / f"{number:016x}" for number in range(n)]
    for minute, folder in enumerate(made):
        (folder / "kernels_1").mkdir(parents=True)
        (folder / "kernels_1" / "a.nbi").write_bytes(b"code")
        (folder / "in_use").touch()
        os.utime(folder / "in_use", (60 * minute, 60 * minute))
    return made


def left(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir())


def test_the_most_recent_stay(tmp_path: Path) -> None:
    made = folders(tmp_path, KEPT + 4)
    prune(tmp_path)
    assert left(tmp_path) == [folder.name for folder in made[3:]]


def test_what_is_not_ours_stays(tmp_path: Path) -> None:
    folders(tmp_path, KEPT + 2)
    for name in ("mine", "0123456789abcdeg", "mine.gone"):
        (tmp_path / name).mkdir()
    (tmp_path / "ffffffffffffffff").symlink_to(tmp_path / "mine")
    (tmp_path / "aaaaaaaaaaaaaaaa.gone").mkdir()  # left by a process that died
    prune(tmp_path)
    assert [name for name in left(tmp_path) if not name.startswith("0000")] == [
        "0123456789abcdeg", "ffffffffffffffff", "mine", "mine.gone"
    ]  # fmt: skip
    assert len(left(tmp_path)) == KEPT + 1 + 4


def test_one_in_use_stays_until_its_process_ends(tmp_path: Path) -> None:
    oldest = folders(tmp_path, KEPT + 2)[0]
    code = HOLD + "hold(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    user = subprocess.Popen([sys.executable, "-c", code, oldest], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert user.stdin is not None and user.stdout is not None
    with user:
        assert user.stdout.readline() == b"held\n"
        os.utime(oldest / "in_use", (0, 0))
        prune(tmp_path)
        assert oldest.name in left(tmp_path)
        user.stdin.close()
    prune(tmp_path)
    assert oldest.name not in left(tmp_path)


def test_a_folder_is_new_once_and_its_use_is_noted(tmp_path: Path) -> None:
    folder = tmp_path / "home" / ("0" * 16)
    assert hold(folder)
    os.utime(folder / "in_use", (0, 0))
    assert not hold(folder)
    assert (folder / "in_use").stat().st_mtime > 1e9


def test_a_place_that_is_none_is_an_error_not_a_wait(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "file" / "x"):
        with pytest.raises(NotADirectoryError):
            hold(folder)


def test_whoever_comes_while_it_is_removed_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Removed between the opening of the file and the lock on it."""
    (folder,) = folders(tmp_path, 1)
    lock = cache_folders.fcntl.flock
    removed: list[bool] = []

    def remove_first(descriptor: int, kind: int) -> None:
        if not removed:
            removed.append(True)
            folder.rename(tmp_path / "away")
        lock(descriptor, kind)

    monkeypatch.setattr(cache_folders.fcntl, "flock", remove_first)
    assert hold(folder)
    assert left(folder) == ["in_use"]


STRESS = """
import os, sys
from pathlib import Path
from dllama_py.kernels import cache_folders
cache_folders.KEPT = 0
place, own = Path(sys.argv[1]), Path(sys.argv[2])
for turn in range(300):
    try:
        os.mkdir(place / f"{turn % 3:016x}")
    except FileExistsError:
        pass
    cache_folders.prune(place)
    if turn == 150:
        cache_folders.hold(own)
        (own / "code").touch()
assert (own / "code").exists() and (own / "in_use").exists()
"""


def test_many_that_come_and_remove_at_once(tmp_path: Path) -> None:
    """Whoever holds a folder has it at the end, though each of the others wants to keep one folder only."""
    names = [f"{number:016x}" for number in (10, 10, 11, 12)]
    commands = [[sys.executable, "-c", STRESS, tmp_path, tmp_path / name] for name in names]
    jobs = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for command in commands]
    assert [(job.communicate()[1], job.returncode) for job in jobs] == [("", 0)] * 4
