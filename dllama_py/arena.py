"""Large memory of this process alone: it is there, page by page, when it is first written."""

import mmap

import numpy as np

from dllama_py.blocks import Bytes


def zeroed(n_bytes: int) -> Bytes:
    """uint8 [n_bytes], on huge pages where the system gives them.

    What grows in steps wants them too: to zero 7 MB in 4 kB pages, a fault each, held up one token in 64 by 25 ms.
    """
    memory = mmap.mmap(-1, max(n_bytes, mmap.PAGESIZE), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):  # Linux; shared mappings would stay on small pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8, n_bytes)
