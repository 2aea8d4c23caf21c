"""Memory on huge pages: large arrays, and what the process has taken otherwise."""

import ctypes
import mmap
import sys
from functools import cache
from pathlib import Path

import numpy as np

from dllama_py.float_types import Bytes

_HUGE_PAGE = 2 << 20  # bytes; where they are larger, the system refuses
_COLLAPSE = 25  # MADV_COLLAPSE, since Linux 6.1; it leaves alone what has no memory yet


def zeroed(n_bytes: int) -> Bytes:
    """uint8 [n_bytes], of this process alone, on huge pages where the system gives them; there when first written.

    What grows in steps wants them too: to zero 7 MB in 4 kB pages, a fault each, held up one token in 64 by 25 ms.
    """
    memory = mmap.mmap(-1, max(n_bytes, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):  # Linux; shared mappings would stay on small pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8, n_bytes)


@cache
def settle_on_huge_pages() -> None:
    """Moves the memory taken so far onto huge pages, once; does nothing where the system knows no such request.

    The interpreter's objects lie scattered over thousands of small pages. After a token, whose weights drive the places
    of pages out of the processor's tables, looking these up again is nearly half of Python's time.
    """
    if sys.platform != "linux":
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for start, end in _private_regions():
        first, n_pages = -(-start // _HUGE_PAGE), end // _HUGE_PAGE - -(-start // _HUGE_PAGE)
        if n_pages > 0:
            madvise(first * _HUGE_PAGE, n_pages * _HUGE_PAGE, _COLLAPSE)


def _private_regions() -> list[tuple[int, int]]:
    """Writable memory of this process that belongs to no file, the heap included: addresses [start, end)."""
    regions = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, permissions, _, _, _, *name = line.split()
        if permissions == "rw-p" and name in ([], ["[heap]"]):
            start, end = (int(address, 16) for address in addresses.split("-"))
            regions.append((start, end))
    return regions
