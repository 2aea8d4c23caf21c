"""How a thread reads a long piece of memory: from how many places side by side, and how far ahead it asks for lines.

What is fastest differs from CPU to CPU. A kernel reads both from words that all its instructions share, so that they
can be set after programs are made (read_patterns.py measures them). They change when bytes come, never what is
computed. docs/decisions/0004-prefetch.md has the measurements.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.vectors import prefetch_line

STREAMS = 4  # that kernels can read side by side, if not one
STREAM = "read_stream"  # the reader that `bench` compares with; the others are named by their weights type


class ReadPattern(NamedTuple):
    """`ahead_bytes`: 0 asks for what is read next, as a branch for none would double every loop.

    `n_streams`: 1 or STREAMS.
    """

    ahead_bytes: int
    n_streams: int


USUAL = ReadPattern(8192, STREAMS)  # where nobody has measured


@cache
def pattern_words(reader: str) -> NDArray[np.int64]:
    """int64 [2], the ReadPattern of this kind of reader: one array for all who ask."""
    return np.array(USUAL)


@njit(forceinline=True)
def prefetch(address: int, n_bytes: int, ahead: int) -> None:
    """Before reading n bytes of a long piece: asks for those that lie `ahead` bytes further on."""
    for line in range(0, n_bytes, 64):
        prefetch_line(address + ahead + line)
