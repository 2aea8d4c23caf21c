"""Which bytes of an unfinished download have come: ranges, each filled from its start, written down beside the file."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dllama_py.cluster.remote import RemoteFile

RANGE_BYTES = 32 << 20


@dataclass(slots=True)
class Range:
    """Bytes [start, stop) of one file, which lie at `offset` of the target; the first `done` of them have come."""

    file: RemoteFile
    start: int
    stop: int
    offset: int
    done: int = 0

    @property
    def missing_bytes(self) -> int:
        return self.stop - self.start - self.done


class Journal:
    """The ranges of a target made of several files one behind the other."""

    def __init__(self, path: Path, files: Sequence[RemoteFile], range_bytes: int = RANGE_BYTES) -> None:
        self.path = path
        self.files = files
        self.ranges = _cut(files, range_bytes)

    @property
    def total_bytes(self) -> int:
        return sum(file.n_bytes for file in self.files)

    @property
    def done_bytes(self) -> int:
        return sum(each.done for each in self.ranges)

    def recall(self) -> None:
        """What was written down for the same files in the same ranges; anything else is forgotten."""
        try:
            noted = json.loads(self.path.read_text())
            done = [int(each) for each in noted["done"]]
            if noted["of"] != self._identity() or len(done) != len(self.ranges):
                return
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return
        for each, done_bytes in zip(self.ranges, done, strict=True):
            each.done = min(max(done_bytes, 0), each.stop - each.start)

    def save(self) -> None:
        """Never half: written beside and moved."""
        beside = self.path.with_name(self.path.name + ".new")
        beside.write_text(json.dumps({"of": self._identity(), "done": [each.done for each in self.ranges]}))
        beside.replace(self.path)

    def forget(self, file: RemoteFile) -> None:
        """The bytes of this file have to come again."""
        for each in self.ranges:
            if each.file == file:
                each.done = 0

    def _identity(self) -> list[list[str | int]]:
        return [[file.expected, file.n_bytes, each.stop] for each in self.ranges for file in [each.file]]


def _cut(files: Sequence[RemoteFile], range_bytes: int) -> list[Range]:
    ranges, offset = [], 0
    for file in files:
        for start in range(0, file.n_bytes, range_bytes):
            stop = min(start + range_bytes, file.n_bytes)
            ranges.append(Range(file, start, stop, offset + start))
        offset += file.n_bytes
    return ranges
