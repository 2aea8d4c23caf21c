# python -m pytest tests/test_arena.py
import mmap
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from dllama_py.arena import settle_on_huge_pages, zeroed


def _can_collapse() -> bool:
    release = os.uname().release.split(".") if sys.platform == "linux" else ["0", "0"]
    return (int(release[0]), int(release[1])) >= (6, 1) and Path("/sys/kernel/mm/transparent_hugepage").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such switch, and no smaps to look at")
def test_large_memory_lies_on_huge_pages_where_they_are_to_be_had() -> None:
    policy = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    arena = zeroed(64 << 20)
    arena[:] = 1
    expected = policy.exists() and "[never]" not in policy.read_text()
    assert (_huge_bytes(arena.ctypes.data) > 32 << 20) == expected


def _huge_bytes(address: int) -> int:
    """AnonHugePages of the mapping that holds an address."""
    inside = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first = line.split(maxsplit=1)[0]
        if "-" in first and not first.endswith(":"):
            start, end = (int(part, 16) for part in first.split("-"))
            inside = start <= address < end
        elif inside and first == "AnonHugePages:":
            return int(line.split()[1]) * 1024
    return 0


@pytest.mark.skipif(not _can_collapse(), reason="asks Linux 6.1 or later")
def test_what_the_process_has_taken_moves_to_huge_pages() -> None:
    taken = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    taken.madvise(mmap.MADV_NOHUGEPAGE)
    array = np.frombuffer(taken, np.uint8)
    array[:] = 1
    taken.madvise(mmap.MADV_HUGEPAGE)
    before = _huge_bytes(array.ctypes.data)
    settle_on_huge_pages.__wrapped__()
    assert (before, _huge_bytes(array.ctypes.data)) == (0, pytest.approx(8 << 20, abs=4 << 20))
