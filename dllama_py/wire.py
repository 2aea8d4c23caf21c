"""What compiled code needs to exchange messages by itself. Floor 0: a table of words, and nothing that moves.

`transport` fills the table with C functions of MPI's signatures, `kernels/swap.py` calls them, so that neither need
know the other and no Python runs between two exchanges of a token.
"""

from collections.abc import Callable
from dataclasses import dataclass
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


class Trouble(IntEnum):
    """Why an exchange ended the program."""

    NONE = 0
    GIVEN_UP = 1  # LOOK_ROUND said so
    FAILED = 2  # a function returned an error code
    LENGTH = 3  # the partner sent a message of another length


@dataclass(frozen=True, slots=True, eq=False)
class Wire:
    """`words`: int64 [N_WORDS]. `explain` makes the error to raise out of the trouble that the words tell, once.

    After trouble a wire is finished: messages may be under way that nobody will take.
    """

    words: NDArray[np.int64]
    explain: Callable[[], BaseException]

    def __getitem__(self, word: WireWord) -> int:
        return int(self.words[word])


def empty_words() -> NDArray[np.int64]:
    """A table without functions, in which nothing has happened yet."""
    return np.zeros(N_WORDS, np.int64)
