"""Files over the network into one file of this disk: in parallel ranges, resumed after a break, checked, joined.

Parts are written where they belong in the joined file while they arrive, so the disk never holds them twice. Until all
is checked the file is called NAME.part, with a journal beside it. It does not know what is at the other end.
"""

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dllama_py.cluster.journal import Journal, Range
from dllama_py.cluster.remote import BrokenOffError, ReadRange, RemoteFile
from dllama_py.errors import ClusterError, InputError
from dllama_py.progress import Progress, Work

CONNECTIONS = 8
TRIES = 5  # without a single byte in between
PAUSE_S = 0.5  # before the second try, doubled before each further one
SAVE_EVERY_S = 1.0
PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Target:
    """A file to make of one or several remote files, one behind the other."""

    path: Path
    files: tuple[RemoteFile, ...]

    @property
    def n_bytes(self) -> int:
        return sum(file.n_bytes for file in self.files)

    @property
    def part(self) -> Path:
        return self.path.with_name(self.path.name + ".part")

    @property
    def journal_path(self) -> Path:
        return self.path.with_name(self.path.name + ".part.json")


def download_all(targets: Sequence[Target], read: ReadRange, progress: Progress) -> None:
    """Make every target that is not there yet. ClusterError before the first byte where the disk is too small.

    What has come when it fails or is interrupted is kept, and the next call goes on from there.
    """
    missing = [target for target in targets if not _is_there(target, progress)]
    _check_disk(missing)
    for target in missing:
        _download(target, read, progress)


def _is_there(target: Target, progress: Progress) -> bool:
    """Whether the finished file has the right bytes, whoever brought it here."""
    if not target.path.is_file() or target.path.stat().st_size != target.n_bytes:
        return False
    return not _wrong_files(target.path, target.files, progress)


def _check_disk(targets: Sequence[Target]) -> None:
    if not targets:
        return
    place = os.statvfs(targets[0].path.parent)
    free = place.f_bavail * place.f_frsize
    there = sum(target.part.stat().st_blocks * 512 for target in targets if target.part.exists())
    needed = sum(target.n_bytes for target in targets) - there
    if needed > free:
        raise ClusterError(
            f"{targets[0].path.parent} has {free / 1e9:.2f} GB of free disk, {needed / 1e9:.2f} GB are needed: "
            "make room, or move the folder and leave a link in its place"
        )


def _download(target: Target, read: ReadRange, progress: Progress) -> None:
    journal = Journal(target.journal_path, target.files)
    if target.part.exists() and target.part.stat().st_size == target.n_bytes:
        journal.recall()
    with target.part.open("r+b" if target.part.exists() else "w+b") as out:
        out.truncate(target.n_bytes)
        journal.save()
        _Transfer(journal, target.path.name, out.fileno(), read, progress).run()
    wrong = _wrong_files(target.part, target.files, progress)
    for file in wrong:
        journal.forget(file)
    if wrong:
        journal.save()
        raise InputError(
            f"{wrong[0].name}: what came from {wrong[0].repository} does not have the hash {wrong[0].expected[:16]}... "
            "that the hub lists: damaged on the way or there; the next try fetches this file anew"
        )
    target.part.replace(target.path)
    target.journal_path.unlink()


def _wrong_files(path: Path, files: Sequence[RemoteFile], progress: Progress) -> list[RemoteFile]:
    """Those of the files, joined in `path`, whose hash is not the expected one."""
    wrong = []
    work = Work(f"checking {path.name.removesuffix('.part')}", sum(file.n_bytes for file in files))
    with path.open("rb") as joined:
        for file in files:
            hasher, rest = file.hasher(), file.n_bytes
            while piece := joined.read(min(PIECE_BYTES, rest)):
                hasher.update(piece)
                rest -= len(piece)
                progress(work, joined.tell(), file.name)
            if hasher.hexdigest() != file.expected:
                wrong.append(file)
    return wrong


class _Transfer:
    """Threads that take ranges until none is left or one of them failed."""

    def __init__(self, journal: Journal, name: str, out: int, read: ReadRange, progress: Progress) -> None:
        self._journal, self._out, self._read, self._progress = journal, out, read, progress
        what = f"fetching the rest of {name}" if journal.done_bytes else f"fetching {name}"
        self._work = Work(what, journal.total_bytes - journal.done_bytes)
        self._waiting = [each for each in reversed(journal.ranges) if each.missing_bytes]
        self._lock = threading.Lock()  # over all of this object, the journal, the file and the progress
        self._come_bytes = 0
        self._over = False
        self._failure: Exception | None = None

    def run(self) -> None:
        """Until all has come; raises the first failure. On an interrupt nothing is written any more."""
        threads = [threading.Thread(target=self._take_ranges, daemon=True) for _ in range(CONNECTIONS)]
        try:
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads) and self._failure is None:
                self._wait(threads)
                with self._lock:
                    self._journal.save()
        finally:
            with self._lock:
                self._over = True
                self._journal.save()
        if self._failure is not None:
            raise self._failure

    def _wait(self, threads: Sequence[threading.Thread]) -> None:
        """For the next moment to save, or the end."""
        until = time.monotonic() + SAVE_EVERY_S
        for thread in threads:
            while thread.is_alive() and self._failure is None and time.monotonic() < until:
                thread.join(0.05)

    def _take_ranges(self) -> None:
        while True:
            with self._lock:
                if self._over or not self._waiting:
                    return
                mine = self._waiting.pop()
            try:
                self._fill(mine)
            except Exception as error:  # carried to the thread that waits, which raises it
                with self._lock:
                    self._failure = self._failure or error
                    self._over = True

    def _fill(self, mine: Range) -> None:
        tries = 0
        while mine.missing_bytes and not self._over:
            before, why = mine.done, "it ended early"
            try:
                for piece in self._read(mine.file, mine.start + mine.done, mine.stop):
                    if not self._take(mine, piece):
                        break
            except BrokenOffError as error:
                why = str(error)
            tries = 0 if mine.done > before else tries + 1
            if tries == TRIES:
                raise ClusterError(
                    f"{mine.file.name}: the connection broke {TRIES} times in a row ({why}); what has come is kept, "
                    "the same command goes on from there"
                )
            if mine.missing_bytes:
                time.sleep(PAUSE_S * 2 ** max(tries - 1, 0))

    def _take(self, mine: Range, piece: bytes) -> bool:
        """Put a piece in its place; whether more of this range is wanted."""
        with self._lock:
            if self._over:
                return False
            piece = piece[: mine.missing_bytes]
            try:
                written = os.pwrite(self._out, piece, mine.offset + mine.done)
            except OSError as error:
                raise ClusterError(f"the disk took no more: {error.strerror}; what has come is kept") from error
            mine.done += written
            self._come_bytes += written
            self._progress(self._work, self._come_bytes, mine.file.name)
            return written == len(piece) and mine.missing_bytes > 0
