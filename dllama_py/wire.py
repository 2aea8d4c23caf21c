"""What compiled code needs to exchange messages by itself. Floor 0: a table of words, and nothing that moves.

`transport` fills the table with C functions of MPI's signatures, `kernels/messages.py` calls them, so that neither need
know the other and no Python runs between two exchanges of a token.
"""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import IntEnum, auto

import numpy as np
from numpy.typing import NDArray


class WireWord(IntEnum):
    """Places in the table, int64 each. Functions and handles are as MPI's C interface has them."""

    ISEND = 0
    IRECV = auto()
    TEST = auto()
    GET_COUNT = auto()
    LOOK_ROUND = auto()  # int (*)(int partner): called now and then by a rank that waits; not 0: give up
    WORLD = auto()
    BYTE = auto()
    TAG = auto()
    BOXES = auto()  # address of int64 [ranks, 2]: of each rank the box to fill and the one to empty; 0: there are none
    SENT_BYTES = auto()  # totals so far
    RECEIVED_BYTES = auto()
    MESSAGES = auto()
    NANOSECONDS = auto()  # spent in exchanges, waits included
    TROUBLE = auto()  # a Trouble; not 0 ends the running program on all threads
    DETAIL = auto()  # of Trouble.FAILED the error code, of Trouble.LENGTH the bytes that came
    EXPECTED = auto()  # of Trouble.LENGTH the bytes expected
    PARTNER = auto()  # of any trouble
    RECEIVING = auto()  # scratch: requests, a flag, a count, seconds and nanoseconds, a status of up to 64 bytes
    SENDING = auto()
    FLAG = auto()
    COUNT = auto()
    CLOCK = auto()
    CLOCK_NS = auto()
    STATUS = auto()


N_WORDS = WireWord.STATUS + 8

# A box is memory that two ranks of one host share, for messages from one of them to the other. Byte offsets: what only
# the one that fills it uses, how many messages it has put in here and has taken out of the box that comes back; then
# two messages, the even and the odd ones, each with its number, its length and its bytes. Ranks answer each other, so
# neither comes two messages ahead of what the other has taken, and nobody need say that a place is free.
BOX_PUT, BOX_TAKEN, BOX_MESSAGES = 0, 64, 128
MESSAGE_NUMBER, MESSAGE_LENGTH, MESSAGE_CONTENT = 0, 8, 64
MESSAGE_MOST_BYTES = 1 << 16  # longer ones go through MPI, which then copies once instead of twice
MESSAGE_BYTES = MESSAGE_CONTENT + MESSAGE_MOST_BYTES
BOX_BYTES = BOX_MESSAGES + 2 * MESSAGE_BYTES


class Trouble(IntEnum):
    """Why an exchange ended the program."""

    NONE = 0
    GIVEN_UP = 1  # LOOK_ROUND said so
    FAILED = 2  # a function returned an error code
    LENGTH = 3  # the partner sent a message of another length


@dataclass(frozen=True, slots=True, eq=False)
class Wire:
    """`words`: int64 [N_WORDS]. `explain` makes the error to raise out of the trouble that the words tell, once.
    `memory`: what the words point to and nobody else keeps. `owner`: to be held while compiled code uses the wire.

    After trouble a wire is finished: messages may be under way that nobody will take.
    """

    words: NDArray[np.int64]
    explain: Callable[[], BaseException]
    memory: list[object] = field(default_factory=list)
    owner: AbstractContextManager[bool] = field(default_factory=threading.RLock)

    def __getitem__(self, word: WireWord) -> int:
        return int(self.words[word])

    def totals(self) -> list[int]:
        """Sent bytes, received bytes, messages, nanoseconds so far: asked for twice a token."""
        words: list[int] = self.words[WireWord.SENT_BYTES : WireWord.NANOSECONDS + 1].tolist()
        return words


def empty_words() -> NDArray[np.int64]:
    """A table without functions, in which nothing has happened yet."""
    return np.zeros(N_WORDS, np.int64)
