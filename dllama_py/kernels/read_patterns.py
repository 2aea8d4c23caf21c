"""Which ReadPattern is fastest on this host, for each weights type and for plain reading: measured once, then kept.

A reader goes through pieces of a memory larger than the caches, each time the next piece with the next pattern, so that
all meet the same moments of a machine that others use too. The first process of a host measures while others sleep on a
file lock; where nothing can be written, every process measures for itself. Some 10 ms a reader, and 50 to fill the
memory.
"""

import fcntl
import json
import os
import platform
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from dllama_py.arena import zeroed
from dllama_py.float_types import Bytes, FloatType
from dllama_py.kernels.bare import FILL, product
from dllama_py.kernels.code_cache import store
from dllama_py.kernels.matmul import matmul
from dllama_py.kernels.memory import read_stream
from dllama_py.kernels.prefetch import STREAM, STREAMS, ReadPattern, pattern_words
from dllama_py.kernels.program import Kernel, Program
from dllama_py.kernels.team import Team

AHEAD_BYTES = (8192, 4096, 2048, 1024, 512, 0)
CANDIDATES = [ReadPattern(ahead, n) for n in (STREAMS, 1) for ahead in AHEAD_BYTES]  # of like ones the first is taken
LIKE = 0.97  # of the fastest one's speed: below what measurements of one pattern differ by
TRIES = 9
PIECE_BYTES = 2_000_000
CACHES_BYTES, LEAST_BYTES, MOST_BYTES = 32_000_000, 32_000_000, 256_000_000
FILE = "read_patterns.json"

Rates = Mapping[ReadPattern, Sequence[float]]
Kept = dict[str, ReadPattern]
_settled: set[str] = set()


def settle_patterns(readers: Collection[str], folder: Path | None = None) -> None:
    """From now on these readers, labels of weights types or STREAM, use what is fastest here; their kernels are
    compiled. What has been measured is kept in the folder, or beside the kernels, if it can be.
    """
    unknown = set(readers) - _settled
    if not unknown:
        return
    folder = folder or store().kept_in
    kept = _read(folder)
    if not unknown <= kept.keys():
        with _locked(folder):
            kept = _read(folder)
            if missing := unknown - kept.keys():
                kept |= measured(sorted(missing))
                _write(folder, kept)
    for reader in unknown:
        pattern_words(reader)[:] = kept[reader]
    _settled.update(unknown)


def readers_of(kernels: Collection[Kernel]) -> set[str]:
    """The weights types that these kernels multiply with. One that is only in weighted sums of experts is left out:
    it would be compiled for the measurement alone.
    """
    return {kind.label for kind in FloatType if matmul(kind) in kernels}


def best_pattern(rates: Rates) -> ReadPattern:
    """The fastest; of those that are as good, the first in CANDIDATES. A pattern's speed is its third best try: others
    disturb many tries, and luck makes one or two too fast.
    """
    speeds = {pattern: sorted(each)[-min(3, len(each))] for pattern, each in rates.items()}
    return next(p for p in CANDIDATES if p in speeds and speeds[p] >= LIKE * max(speeds.values()))


def measured(readers: Sequence[str]) -> Kept:
    """The best pattern of each."""
    memory = zeroed(memory_bytes(_largest_cache_bytes(Path("/sys/devices/system/cpu/cpu0/cache"))))
    memory[:] = FILL  # else all of it is the system's one page of zeros
    return {reader: best_pattern(_rates(reader, memory)) for reader in readers}


def memory_bytes(cache_bytes: int) -> int:
    """Of the memory that is read: no cache of this size holds what was read a round ago."""
    return min(max(2 * cache_bytes, LEAST_BYTES), MOST_BYTES)


def _rates(reader: str, memory: Bytes) -> Rates:
    """Bytes a second of every candidate, TRIES of each."""
    team, words, usual = Team(1), pattern_words(reader), pattern_words(reader).copy()
    pieces = [
        _program(reader, memory[at : at + PIECE_BYTES]) for at in range(0, memory.nbytes - PIECE_BYTES, PIECE_BYTES)
    ]
    rates: dict[ReadPattern, list[float]] = {pattern: [] for pattern in CANDIDATES}
    for number in range(TRIES * len(CANDIDATES)):
        pattern = CANDIDATES[(number + number // len(CANDIDATES)) % len(CANDIDATES)]  # no round begins like another
        words[:] = pattern
        started = time.perf_counter()
        team.run(pieces[number % len(pieces)])
        rates[pattern].append(1 / (time.perf_counter() - started))
    words[:] = usual
    return rates


def _program(reader: str, piece: Bytes) -> Program:
    if reader == STREAM:
        return Program([read_stream(x=piece, n_bytes=piece.nbytes // 256 * 256, out=np.zeros((1, 16), np.int32))])
    return product(FloatType.named(reader), piece, n_rows=1)


def _largest_cache_bytes(caches: Path) -> int:
    """As the system tells it ('105M', '2048K'), or a guess."""
    sizes = [0]
    for path in caches.glob("index*/size"):
        with suppress(OSError, ValueError, KeyError):
            text = path.read_text().strip()
            sizes.append(int(text[:-1]) * {"K": 1 << 10, "M": 1 << 20}[text[-1]])
    return max(sizes) or CACHES_BYTES


def _cpu_model() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "CPU part")):
                return line.partition(":")[2].strip()
    return platform.machine()


def _read(folder: Path) -> Kept:
    """Of this CPU model; nothing where the file is absent or not as it was written."""
    with suppress(TypeError, AttributeError):
        kept = _every_model(folder / FILE).get(_cpu_model(), {})
        patterns = {reader: ReadPattern(*words) for reader, words in kept.items()}
        return {reader: pattern for reader, pattern in patterns.items() if pattern in CANDIDATES}
    return {}


def _write(folder: Path, kept: Kept) -> None:
    path = folder / FILE
    part = path.with_suffix(f".{os.getpid()}")
    with suppress(OSError):
        try:
            part.write_text(json.dumps(_every_model(path) | {_cpu_model(): kept}))
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)


def _every_model(path: Path) -> dict[str, Any]:
    """What the file says, nothing if it is not as it was written."""
    with suppress(OSError, ValueError, RecursionError):
        found = json.loads(path.read_text())
        return found if isinstance(found, dict) else {}
    return {}


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Alone on this host, where a file can be written to say so."""
    try:
        lock = open(folder / f"{FILE}.lock", "w")
    except OSError:
        yield
        return
    with lock:
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
