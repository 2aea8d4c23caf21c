"""Making a wire out of a C library with MPI's functions, which need not be MPI."""

import ctypes
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from dllama_py.wire import Trouble, Wire, WireWord, empty_words

FUNCTIONS = {
    WireWord.ISEND: "MPI_Isend",
    WireWord.IRECV: "MPI_Irecv",
    WireWord.TEST: "MPI_Test",
    WireWord.GET_COUNT: "MPI_Get_count",
}
_LOOK_ROUND = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)


def make_wire(
    library: Any,
    handles: Mapping[WireWord, int],
    look_round: Callable[[int], None],
    explain: Callable[[Wire], BaseException],
    owner: AbstractContextManager[bool] | None = None,
) -> Wire:
    """A wire of the library's functions, which must outlive it.

    look_round(partner): called now and then while compiled code waits; what it raises, KeyboardInterrupt included, ends
    the program and is the error that the wire explains. explain: makes the error of any other trouble. owner: held by
    whoever uses the library; None where nobody else does.
    """
    raised: list[BaseException] = []
    looks = _looks(look_round, raised)
    next(looks)
    callback = _LOOK_ROUND(looks.send)
    words = empty_words()
    for word, name in FUNCTIONS.items():
        words[word] = address_of(getattr(library, name))
    for word, handle in handles.items():
        words[word] = ctypes.c_int64(
            handle
        ).value  # those of MPICH are signed 32-bit numbers told as unsigned 64-bit ones
    words[WireWord.LOOK_ROUND] = address_of(callback)

    def explained() -> BaseException:
        assert callback  # kept alive as long as the wire
        return raised.pop() if wire[WireWord.TROUBLE] == Trouble.GIVEN_UP else explain(wire)

    wire = Wire(words, explained, owner=owner or threading.RLock())
    return wire


def _looks(look_round: Callable[[int], None], raised: list[BaseException]) -> Generator[int, int, None]:
    """Takes partners and yields whether to give up. A generator, since Python runs the handlers of signals that came
    during compiled code at the entry of a function, where its own `try` does not reach, but here it does.
    """
    give_up = 0
    while True:
        try:
            while True:
                look_round((yield give_up))
        except GeneratorExit:
            return
        except BaseException as error:  # must not get lost in the compiled caller
            raised.append(error)
            give_up = 1


def address_of(function: Any) -> int:
    """Where a ctypes function is."""
    return int(ctypes.cast(function, ctypes.c_void_p).value or 0)
