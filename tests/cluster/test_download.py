# python -m pytest tests/cluster/test_download.py
import errno
import hashlib
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from dllama_py.cluster import transfer
from dllama_py.cluster.download import Target, download_all
from dllama_py.cluster.hub import Hub
from dllama_py.cluster.journal import Journal
from dllama_py.cluster.remote import BrokenOffError, ReadRange, RemoteFile
from dllama_py.errors import ClusterError, InputError
from dllama_py.progress import Work, unwatched
from tests.support.hub import FakeHub, running

PART_A = random.Random(1).randbytes(3_000_000)
PART_B = random.Random(2).randbytes(1_234_567)
SMALL = b'{"small": true}'


@pytest.fixture(autouse=True)
def _small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "PAUSE_S", 0.001)
    monkeypatch.setattr(Journal.__init__, "__defaults__", (400_000,))


@pytest.fixture
def fake() -> Iterator[FakeHub]:
    with running(FakeHub({"me/model": {"a": PART_A, "b": PART_B, "small.json": SMALL}})) as hub:
        yield hub


def target(fake: FakeHub, folder: Path, *names: str) -> Target:
    files = {file.name: file for file in Hub(fake.url).list_files("me/model")}
    return Target(folder / "whole.m", tuple(files[name] for name in names))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_parts_are_joined_and_nothing_else_is_left(fake: FakeHub, tmp_path: Path) -> None:
    told: list[tuple[Work, int]] = []
    download_all(
        [target(fake, tmp_path, "a", "b")],
        Hub(fake.url).read_range,
        lambda work, done, detail: told.append((work, done)),
    )
    assert (tmp_path / "whole.m").read_bytes() == PART_A + PART_B
    assert names(tmp_path) == ["whole.m"]
    assert {work for work, _ in told} == {Work("fetching whole.m", 4_234_567), Work("checking whole.m", 4_234_567)}
    assert [work.title for work, done in told if done == 4_234_567] == ["fetching whole.m", "checking whole.m"]
    assert len(fake.bodies_asked()) == 8 + 4  # ranges of 400 kB


def test_small_files_have_the_hash_of_git(fake: FakeHub, tmp_path: Path) -> None:
    download_all([target(fake, tmp_path, "small.json")], Hub(fake.url).read_range, unwatched)
    assert (tmp_path / "whole.m").read_bytes() == SMALL


def test_an_empty_file(tmp_path: Path) -> None:
    empty = RemoteFile("me/model", "c", "empty", 0, None, hashlib.sha1(b"blob 0\0").hexdigest())
    download_all([Target(tmp_path / "empty", (empty,))], _never, unwatched)
    assert (tmp_path / "empty").read_bytes() == b""


def test_what_is_there_and_right_is_not_fetched(fake: FakeHub, tmp_path: Path) -> None:
    (tmp_path / "whole.m").write_bytes(PART_A + PART_B)
    download_all([target(fake, tmp_path, "a", "b")], _never, unwatched)
    assert fake.bodies_asked() == []


def test_what_is_there_and_wrong_is_replaced(fake: FakeHub, tmp_path: Path) -> None:
    (tmp_path / "whole.m").write_bytes(b"x" * len(SMALL))
    download_all([target(fake, tmp_path, "small.json")], Hub(fake.url).read_range, unwatched)
    assert (tmp_path / "whole.m").read_bytes() == SMALL


def test_connections_that_break_off_all_the_time(
    fake: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dllama_py.cluster.hub.PIECE_BYTES", 10_000)
    fake.break_after = 150_000
    download_all([target(fake, tmp_path, "a", "b")], Hub(fake.url).read_range, unwatched)
    assert (tmp_path / "whole.m").read_bytes() == PART_A + PART_B
    assert len(fake.bodies_asked()) > 30


def test_a_busy_hub(fake: FakeHub, tmp_path: Path) -> None:
    wanted = target(fake, tmp_path, "a")
    fake.busy_left = 10
    download_all([wanted], Hub(fake.url).read_range, unwatched)
    assert (tmp_path / "whole.m").read_bytes() == PART_A


def test_a_broken_download_goes_on_where_it_was(fake: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "CONNECTIONS", 1)
    monkeypatch.setattr(transfer, "SAVE_EVERY_S", 0.01)
    wanted = target(fake, tmp_path, "a", "b")
    with pytest.raises(ClusterError, match="broke 8 times in a row .*; what has come is kept, the same command"):
        download_all([wanted], _only(fake, 1_000_000), unwatched)
    assert names(tmp_path) == ["whole.m.part", "whole.m.part.json"]
    assert sum(json.loads((tmp_path / "whole.m.part.json").read_text())["done"]) == 1_000_000
    fake.asked.clear()
    works: set[Work] = set()
    download_all([wanted], Hub(fake.url).read_range, lambda work, done, detail: works.add(work))
    assert (tmp_path / "whole.m").read_bytes() == PART_A + PART_B
    assert Work("fetching the rest of whole.m", 3_234_567) in works
    assert fake.asked[0][1] == "bytes=1000000-1199999"
    assert names(tmp_path) == ["whole.m"]


def test_only_the_damaged_part_comes_again(fake: FakeHub, tmp_path: Path) -> None:
    wanted = target(fake, tmp_path, "a", "b")
    fake.repositories["me/model"]["b"] = b"x" + PART_B[1:]
    with pytest.raises(InputError, match="b: what came from me/model does not have the hash .* fetches this file anew"):
        download_all([wanted], Hub(fake.url).read_range, unwatched)
    assert names(tmp_path) == ["whole.m.part", "whole.m.part.json"]
    fake.repositories["me/model"]["b"] = PART_B
    fake.asked.clear()
    download_all([wanted], Hub(fake.url).read_range, unwatched)
    assert set(fake.bodies_asked()) == {"b"}
    assert (tmp_path / "whole.m").read_bytes() == PART_A + PART_B


def test_another_version_on_the_hub_begins_anew(fake: FakeHub, tmp_path: Path) -> None:
    with pytest.raises(ClusterError):
        download_all([target(fake, tmp_path, "a")], _only(fake, 1_000_000), unwatched)
    fake.repositories["me/model"]["a"] = PART_A[::-1]
    download_all([target(fake, tmp_path, "a")], Hub(fake.url).read_range, unwatched)
    assert (tmp_path / "whole.m").read_bytes() == PART_A[::-1]


def test_a_file_shorter_than_listed(fake: FakeHub, tmp_path: Path) -> None:
    fake.says_bytes = 3_000_001
    with pytest.raises(InputError, match="has 3000000 bytes, the hub's list says 3000001"):
        download_all([target(fake, tmp_path, "a")], Hub(fake.url).read_range, unwatched)
    assert not (tmp_path / "whole.m").exists()


def test_a_disk_that_is_too_small_is_told_before_the_first_byte(tmp_path: Path) -> None:
    huge = RemoteFile("me/model", "c", "huge", 1 << 60, "0" * 64, "")
    with pytest.raises(ClusterError, match="B of free disk, 1152921.5 TB are needed"):
        download_all([Target(tmp_path / "huge", (huge,))], _never, unwatched)
    assert names(tmp_path) == []


def test_what_has_come_needs_no_room_again(fake: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = target(fake, tmp_path, "a")
    with pytest.raises(ClusterError):
        download_all([wanted], _only(fake, 2_000_000), unwatched)
    there = (tmp_path / "whole.m.part").stat().st_blocks * 512
    free = os.statvfs_result((4096, 4096, 0, 0, -(-(3_000_000 - there) // 4096), 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda path: free)
    download_all([wanted], Hub(fake.url).read_range, unwatched)
    assert (tmp_path / "whole.m").read_bytes() == PART_A


def test_a_disk_that_fills_up_meanwhile(fake: FakeHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    wanted = target(fake, tmp_path, "a")
    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(ClusterError, match="the disk took no more: No space left on device; what has come is kept"):
        download_all([wanted], Hub(fake.url).read_range, unwatched)
    assert not (tmp_path / "whole.m").exists()


PROGRAM = """
import sys
from pathlib import Path
from dllama_py.cluster.download import Target, download_all
from dllama_py.cluster.hub import Hub
from dllama_py.progress import unwatched
hub = Hub(sys.argv[1])
files = {file.name: file for file in hub.list_files("me/model")}
download_all([Target(Path(sys.argv[2]), (files["a"],))], hub.read_range, unwatched)
"""


@pytest.mark.parametrize("signal", ["INT", "KILL"])
def test_a_killed_download_goes_on(fake: FakeHub, tmp_path: Path, signal: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # ranges as usual, as in the other process
    fake.bytes_per_s = 200_000
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, fake.url, str(tmp_path / "whole.m")], stderr=subprocess.DEVNULL
    )
    noted = tmp_path / "whole.m.part.json"
    until = time.monotonic() + 60
    while (not noted.exists() or not sum(json.loads(noted.read_text())["done"])) and time.monotonic() < until:
        time.sleep(0.05)
    subprocess.run(["kill", f"-{signal}", str(process.pid)], check=True)
    assert process.wait(60) != 0
    assert names(tmp_path) == ["whole.m.part", "whole.m.part.json"]
    fake.bytes_per_s = None
    files = tuple(file for file in Hub(fake.url).list_files("me/model") if file.name == "a")
    works: set[str] = set()
    download_all(
        [Target(tmp_path / "whole.m", files)], Hub(fake.url).read_range, lambda work, *_: works.add(work.title)
    )
    assert "fetching the rest of whole.m" in works
    assert (tmp_path / "whole.m").read_bytes() == PART_A


def _never(file: RemoteFile, start: int, stop: int) -> Generator[bytes]:
    raise AssertionError(f"{file.name} was asked for")
    yield b""


def _only(fake: FakeHub, most_bytes: int) -> ReadRange:
    """Reads so many bytes in all, then every connection breaks."""
    left = most_bytes

    def read(file: RemoteFile, start: int, stop: int) -> Generator[bytes]:
        nonlocal left
        for piece in Hub(fake.url).read_range(file, start, stop):
            piece = piece[:left]
            left -= len(piece)
            if not piece:
                raise BrokenOffError("gone")
            yield piece

    return read
