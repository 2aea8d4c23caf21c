# python -m pytest tests/test_arena.py
import sys
from pathlib import Path

import pytest

from dllama_py.arena import zeroed


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
