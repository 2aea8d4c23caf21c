"""What a leader tells the ranks that share its layers: a header of words, and for a step its rows.

The root leads the first stage and tells the leaders of the others the same, stage by stage (pipeline.py). The header
comes in a message of always the same length, since a rank must know what it waits for. It has room for the rows of a
step that decodes one token; those of longer steps follow in a message of their own.
"""

from enum import IntEnum
from functools import cache
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dllama_py.engine.step import Floats
from dllama_py.model.rank_model import Step

HEADER_WORDS = 8

Words = NDArray[np.int64]
Bytes = NDArray[np.uint8]


class Message(IntEnum):
    """Kinds, with the words that follow."""

    STOP = 0
    FORWARD = 1  # rows, wanted rows, candidates of each
    CUT = 2  # slot, length: its positions from there on are forgotten
    REPORT = 3  # every rank tells its memory
    READ = 4  # all ranks read memory at once and tell their rates
    LOGITS = 5  # number of a wanted row, steps since (along the chain: the step): every rank sends all its logits
    DRAW = 6  # the same two, share of the vocabulary, part and temperature as bits: its owner draws
    HASH_ALL = 7  # every step is hashed from now on, and leaders keep the hashes
    HASHES = 8  # rows, 1 for the leaves: every rank sends its hashes of the last step
    ANSWER = 9  # to the root, never from it: of a step
    MORE = 10  # to the root: what LOGITS or DRAW asked for
    VOID = 11  # between leaders, instead of FORWARD: the step was recalled
    HOPS = 12  # every rank tells what the messages of other stages to it have taken, and all compare their clocks
    KEPT = 13  # the leader of every stage sends the root the hashes that it has kept


class Broadcasting(Protocol):
    """What it needs of a Comm."""

    @property
    def size(self) -> int: ...

    def broadcast(self, buffer: Bytes, root: int = 0) -> None: ...

    def broadcast_idle(self, buffer: Bytes, root: int = 0) -> None: ...


class Mail:
    """One rank's end: the leader tells, the others hear. `max_rows`: of a step; `width`: floats of a row."""

    def __init__(self, comm: Broadcasting, max_rows: int, width: int) -> None:
        self._comm = comm
        self._width = width
        self._is_alone = comm.size == 1
        self._first = np.zeros(8 * HEADER_WORDS + _step_bytes(1, 1, width), np.uint8)
        self._header = self._first[: 8 * HEADER_WORDS].view(np.int64)
        self._second = np.zeros(_step_bytes(max_rows, max_rows, width), np.uint8)
        self._place = cache(self._new_place)

    def tell(self, kind: Message, *words: int) -> None:
        """To all other ranks."""
        if not self._is_alone:
            self._header[: 1 + len(words)] = kind, *words
            self._comm.broadcast_idle(self._first)

    def tell_step(self, step: Step, x: Floats) -> None:
        """x: float32 [T, D], what the layers begin with."""
        if self._is_alone:
            return
        n_rows, n_wanted = len(step.slots), len(step.wanted)
        second, words, floats = self._place(n_rows, n_wanted)
        write_step(words, step)
        floats[:] = x.reshape(-1)
        self.tell(Message.FORWARD, n_rows, n_wanted, step.n_candidates)
        if second is not None:
            self._comm.broadcast(second)

    def hear(self) -> tuple[Message, list[int]]:
        """The next message of the leader: its kind and its words."""
        self._comm.broadcast_idle(self._first)
        kind, *words = self._header.tolist()
        return Message(kind), words

    def hear_step(self, n_rows: int, n_wanted: int, n_candidates: int) -> tuple[Step, Floats]:
        """The step that was announced, and its rows [T, D]; valid until the next message."""
        second, words, floats = self._place(n_rows, n_wanted)
        if second is not None:
            self._comm.broadcast(second)
        return read_step(words, n_rows, n_wanted, n_candidates), floats.reshape(n_rows, self._width)

    def _new_place(self, n_rows: int, n_wanted: int) -> tuple[Bytes | None, Words, Floats]:
        """The message that follows the header, if one does, and where a step's words and rows stand."""
        is_short = n_rows == 1 and n_wanted <= 1
        buffer = self._first[8 * HEADER_WORDS :] if is_short else self._second
        message = buffer[: _step_bytes(n_rows, n_wanted, self._width)]
        end = 8 * n_step_words(n_rows, n_wanted)
        return None if is_short else message, message[:end].view(np.int64), message[end:].view(np.float32)


def write_step(words: Words, step: Step) -> None:
    """Slots and positions of the rows; numbers, tokens and inverse temperatures of the wanted ones."""
    n_wanted = len(step.wanted)
    words[: len(words) - n_wanted] = [*step.slots, *step.positions, *step.wanted, *step.n_tokens]
    words[len(words) - n_wanted :].view(np.float64)[:] = step.inverse_temperatures


def read_step(words: Words, n_rows: int, n_wanted: int, n_candidates: int) -> Step:
    """What `write_step` has written."""
    inverse = words[len(words) - n_wanted :].view(np.float64).tolist()
    values = words.tolist()
    slots, positions, of_wanted = values[:n_rows], values[n_rows : 2 * n_rows], values[2 * n_rows :]
    return Step(slots, positions, of_wanted[:n_wanted], n_candidates, of_wanted[n_wanted : 2 * n_wanted], inverse)


def n_step_words(n_rows: int, n_wanted: int) -> int:
    """Words of a step: slot and position of each row; number, tokens and inverse temperature of each wanted one."""
    return 2 * n_rows + 3 * n_wanted


def _step_bytes(n_rows: int, n_wanted: int, width: int) -> int:
    return 8 * n_step_words(n_rows, n_wanted) + 4 * n_rows * width
