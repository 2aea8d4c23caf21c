"""Threads that fill the ranges of a journal into a file, over as many connections, with patience for broken ones."""

import os
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress

from dllama_py.cluster.journal import Journal, Range
from dllama_py.cluster.remote import BrokenOffError, ReadRange
from dllama_py.errors import ClusterError
from dllama_py.progress import Progress, Work

CONNECTIONS = 8
TRIES = 8  # without a single byte in between
PAUSE_S = 0.5  # before the second try, doubled before each further one: a minute in all
SAVE_EVERY_S = 1.0
LOOK_S = 0.05  # between two looks at whether it is over


class Transfer:
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
                self._save()
        finally:
            with self._lock:
                self._over = True
            self._save()
        if self._failure is not None:
            raise self._failure

    def _save(self) -> None:
        """Where the disk is full, the state of a second ago has to do."""
        with self._lock, suppress(OSError):
            self._journal.save()

    def _wait(self, threads: Sequence[threading.Thread]) -> None:
        """For the next moment to save, or the end."""
        until = time.monotonic() + SAVE_EVERY_S
        for thread in threads:
            while thread.is_alive() and self._failure is None and time.monotonic() < until:
                thread.join(LOOK_S)

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
            before = mine.done
            broken = self._read_some(mine)
            tries = 0 if mine.done > before else tries + 1
            if tries == TRIES:
                raise ClusterError(
                    f"{mine.file.name}: the connection broke {TRIES} times in a row ({broken}); what has come is "
                    "kept, the same command goes on from there"
                )
            if mine.missing_bytes:
                self._pause(max(PAUSE_S * 2 ** max(tries - 1, 0), broken.wait_s))

    def _read_some(self, mine: Range) -> BrokenOffError:
        """Over one connection, until it ends; why it did."""
        try:
            with closing(self._read(mine.file, mine.start + mine.done, mine.stop)) as pieces:
                for piece in pieces:
                    if not self._take(mine, piece):
                        break
        except BrokenOffError as error:
            return error
        return BrokenOffError("it ended early")

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._over and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, LOOK_S))

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
            self._progress(self._work, self._come_bytes, mine.file.name if len(self._journal.files) > 1 else "")
            return written == len(piece) and mine.missing_bytes > 0
