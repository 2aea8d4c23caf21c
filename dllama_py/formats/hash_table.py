"""Hashes of parts of files, remembered between runs. They hold for as long as a file's `FileVersion` is what it was.

One JSON file in the home folder, which several processes may read and write at once: whole or not at all, and joined
under a lock. Whatever is wrong with it, or with the folder, means that nothing is remembered: hashes are made again.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import astuple
from pathlib import Path
from typing import Any

from dllama_py.formats.mapped import MappedFile, version_of
from dllama_py.home import home_folder

Ranges = dict[tuple[int, int], bytes]  # (offset, length) in bytes -> hash of those bytes

NAME = "hashes.json"
WRITTEN_AS = "xxh3_128, 1"
HASH_BYTES = 16
MOST_FILES = 64
MOST_BYTES = 8 << 20  # of the table; a model of 70 GB takes some 300 kB, one of 20,000 experts 1.2 MB
SETTLED_NS = 2_000_000_000  # a file may change twice within one tick of its clock: a change as young as this may be one
LOCK_TRIES, LOCK_PAUSE_S = 50, 0.02


def recall(files: Iterable[MappedFile]) -> dict[MappedFile, Ranges]:
    """What is known of these files as they were when they were mapped."""
    table = _read()
    return {file: _ranges(table.get(str(file.path.absolute())), file) for file in files}


def remember(found: Mapping[MappedFile, Ranges]) -> None:
    """Adds hashes to what is known, but of a file that has changed since it was mapped, or changed just before."""
    settled = {file: ranges for file, ranges in found.items() if ranges and _is_settled(file)}
    if not settled:
        return
    with suppress(OSError), _locked() as is_ours:
        if is_ours:
            table = _read()
            for file, ranges in settled.items():
                path = str(file.path.absolute())
                table[path] = _entry(file, _ranges(table.get(path), file) | ranges)
            _write(_bounded(table))


def _is_settled(file: MappedFile) -> bool:
    try:
        is_same = version_of(file.path.stat()) == file.version
    except OSError:
        return False
    return is_same and max(file.version.mtime_ns, file.version.ctime_ns) + SETTLED_NS < time.time_ns()


def _entry(file: MappedFile, ranges: Ranges) -> dict[str, Any]:
    hashes = {f"{offset}+{length}": digest.hex() for (offset, length), digest in ranges.items()}
    return {"version": list(astuple(file.version)), "written_s": int(time.time()), "hashes": hashes}


def _ranges(entry: Any, file: MappedFile) -> Ranges:
    """Of an entry of this version of the file; nothing where it is of another, or damaged."""
    try:
        if entry["version"] != list(astuple(file.version)):
            return {}
        ranges = {}
        for place, digest in entry["hashes"].items():
            offset, length = map(int, place.split("+"))
            ranges[offset, length] = bytes.fromhex(digest)
    except (AttributeError, KeyError, TypeError, ValueError):
        return {}
    return ranges if all(len(digest) == HASH_BYTES for digest in ranges.values()) else {}


def _bounded(table: dict[str, Any]) -> dict[str, Any]:
    """Without what was written longest ago where it is too much."""
    newest = sorted(table, key=lambda path: _written_s(table[path]), reverse=True)[:MOST_FILES]
    kept, n_bytes = {}, 0
    for path in newest:
        n_bytes += len(json.dumps(table[path])) + len(path)
        if n_bytes <= MOST_BYTES:
            kept[path] = table[path]
    return kept


def _written_s(entry: Any) -> float:
    written_s = entry.get("written_s") if isinstance(entry, dict) else None
    return written_s if isinstance(written_s, int | float) else 0


def _read() -> dict[str, Any]:
    """Entries by absolute path."""
    try:
        with (home_folder() / NAME).open("rb") as file:
            found = json.loads(file.read(2 * MOST_BYTES))
        files = found["files"] if found["written_as"] == WRITTEN_AS else {}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return files if isinstance(files, dict) else {}


def _write(table: dict[str, Any]) -> None:
    path = home_folder() / NAME
    part = path.with_name(f"{NAME}.{os.getpid()}")
    try:
        part.write_text(json.dumps({"written_as": WRITTEN_AS, "files": table}))
        part.replace(path)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)


@contextmanager
def _locked() -> Iterator[bool]:
    """Whether the table is this process's to change. Nobody waits long: a process that is frozen may have it."""
    folder = home_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with Path(folder / f"{NAME}.lock").open("w") as lock:
        for _ in range(LOCK_TRIES):
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield True
                return
            time.sleep(LOCK_PAUSE_S)
        yield False
