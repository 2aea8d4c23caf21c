"""Memory that ranks of one host share, so that their short messages need no library (the boxes of wire.py).

Each rank makes a piece of memory without a name, which the system frees with its last user, however that ends; the
others reach it through the file system of processes. Where that is not to be had, or two ranks of one host name are in
fact in two containers, they go on without.
"""

import mmap
import os
import secrets

import numpy as np
from numpy.typing import NDArray

from dllama_py.transport.comm import Comm
from dllama_py.wire import BOX_BYTES, Wire, WireWord

Words = NDArray[np.int64]

HEAD_BYTES = mmap.PAGESIZE  # in front of the boxes: a number that tells the memory from all other
NOWHERE = -1


def add_boxes(wire: Wire, comm: Comm) -> None:
    """Gives the wire, once, boxes to and from all ranks that share memory with this one. All ranks call it."""
    if wire[WireWord.BOXES]:
        return
    own = _Memory.new(comm.size)
    places = _told_to_all(comm, own.place)
    seen = [_seen(own, places, comm, rank) for rank in range(comm.size)]
    is_shared = _told_to_all(comm, np.array([memory is not None for memory in seen], np.int64))
    own.close()  # everybody has opened it who can
    boxes = np.zeros((comm.size, 2), np.int64)
    for rank, memory in enumerate(seen):
        if memory is not None and is_shared[rank, comm.rank]:
            boxes[rank] = own.box(rank), memory.box(comm.rank)
    wire.memory.extend([own, *seen, boxes])
    wire.words[WireWord.BOXES] = boxes.ctypes.data


def _told_to_all(comm: Comm, words: Words) -> Words:
    """int64 [ranks, n], of what each rank tells."""
    told = np.zeros((comm.size, len(words)), np.int64)
    comm.gather(words, list(told) if comm.rank == 0 else None)
    comm.broadcast(told)
    return told


def _seen(own: "_Memory", places: Words, comm: Comm, rank: int) -> "_Memory | None":
    """The memory of another rank, if it can be reached from here."""
    if rank == comm.rank or comm.hosts[rank] != comm.hosts[comm.rank] or own.place[0] == NOWHERE:
        return None
    return _Memory.of(places[rank], comm.size)


class _Memory:
    """The boxes that one rank fills. `place`: int64 [3], by which others find it: process, file, number in its head."""

    def __init__(self, place: Words, memory: mmap.mmap | None = None) -> None:
        self.place = place
        self._bytes = np.frombuffer(memory or bytes(8), np.uint8)

    @classmethod
    def new(cls, size: int) -> "_Memory":
        """Memory of one's own; of none where the system has no such thing."""
        try:
            file = os.memfd_create("dllama-boxes")
            os.truncate(file, _n_bytes(size))
            memory = cls(np.array([os.getpid(), file, secrets.randbits(63)]), mmap.mmap(file, _n_bytes(size)))
        except (AttributeError, OSError):
            return cls(np.full(3, NOWHERE))
        memory._head[0] = memory.place[2]
        return memory

    @classmethod
    def of(cls, place: Words, size: int) -> "_Memory | None":
        """That of another process, unless it cannot be opened or is not what was meant."""
        try:
            file = os.open(f"/proc/{place[0]}/fd/{place[1]}", os.O_RDWR)
        except OSError:
            return None
        try:
            if os.fstat(file).st_size != _n_bytes(size):
                return None
            memory = cls(place, mmap.mmap(file, _n_bytes(size)))
        except OSError:
            return None
        finally:
            os.close(file)
        return memory if memory._head[0] == place[2] else None

    @property
    def _head(self) -> Words:
        return self._bytes[:8].view(np.int64)

    def box(self, rank: int) -> int:
        """Address of the box for a rank."""
        return int(self._bytes.ctypes.data) + HEAD_BYTES + rank * BOX_BYTES

    def close(self) -> None:
        """The file; the memory stays."""
        if self.place[1] != NOWHERE:
            os.close(int(self.place[1]))


def _n_bytes(size: int) -> int:
    return HEAD_BYTES + size * BOX_BYTES
