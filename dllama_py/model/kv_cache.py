"""Keys and values of all slots, in pages of 64 positions that a slot takes when it reaches them.

Every rank keeps the same page tables for its own KV heads, because it sees the same rows in the same order. A page
number covers all layers of the rank, whose parts lie one behind the other, so memory is taken as a sequence grows:
what is reserved costs nothing until it is written.
"""

import math

import numpy as np
from numpy.typing import NDArray

from dllama_py.arena import zeroed
from dllama_py.blocks import Bytes
from dllama_py.config import ModelConfig
from dllama_py.errors import UsageError
from dllama_py.kernels.layout import PAGE
from dllama_py.sharding.plan import Shard

NO_PAGE = -1


class KvCache:
    """Room for `n_slots` sequences of up to `context` positions each."""

    def __init__(self, config: ModelConfig, shard: Shard, n_slots: int, context: int, half: bool) -> None:
        self.context = context
        self.half = half
        pages_per_slot = -(-context // PAGE)
        self._free = list(range(n_slots * pages_per_slot - 1, -1, -1))  # the lowest number is taken first
        self._tables = np.full((n_slots, pages_per_slot), NO_PAGE, np.int64)
        self._tables_address: int = self._tables.ctypes.data  # asked for once; numpy takes microseconds to tell it
        self._n_pages = [0] * n_slots
        page_bytes = len(shard.kv_heads) * config.head_width * PAGE * (2 if half else 4)
        self._first_layer = shard.layers.start
        self._n_parts = max(len(shard.layers), 1)  # of a page; a rank without layers counts its pages all the same
        shape = (n_slots * pages_per_slot, len(shard.layers), page_bytes)
        self._keys = _zeros(shape)  # a layer's part of a page: [kv heads, 4, E, 16]
        self._values = _zeros(shape)  # [kv heads, 64, E]

    @property
    def n_slots(self) -> int:
        return len(self._n_pages)

    @property
    def n_bytes(self) -> int:
        """Bytes if every page were in use."""
        return self._keys.nbytes + self._values.nbytes

    def keys(self, layer: int) -> NDArray[np.uint8]:
        """Keys of one layer. Kernels find the part with number n at n parts' bytes from its start."""
        return self._keys[:, layer - self._first_layer]

    def values(self, layer: int) -> NDArray[np.uint8]:
        """Values of one layer, as `keys`."""
        return self._values[:, layer - self._first_layer]

    def table_address(self, slot: int) -> int:
        """Where the part numbers of a slot's pages stand, for the kernels: page number * layers."""
        return self._tables_address + slot * self._tables.strides[0]

    def reach(self, slot: int, position: int) -> None:
        """Makes sure that the slot has the page of this position and all before it."""
        if position >= self.context:
            raise UsageError(f"position {position} is beyond the context of {self.context} (--max-seq-len)")
        while self._n_pages[slot] <= position // PAGE:
            self._tables[slot, self._n_pages[slot]] = self._free.pop() * self._n_parts
            self._n_pages[slot] += 1

    def cut(self, slot: int, length: int) -> None:
        """Gives back the pages of positions from `length` on."""
        keep = -(-length // PAGE)
        while self._n_pages[slot] > keep:
            self._n_pages[slot] -= 1
            self._free.append(int(self._tables[slot, self._n_pages[slot]]) // self._n_parts)
            self._tables[slot, self._n_pages[slot]] = NO_PAGE


def _zeros(shape: tuple[int, ...]) -> Bytes:
    return zeroed(math.prod(shape)).reshape(shape)
