"""Messages between ranks in the middle of a program: MPI is called from compiled code, by addresses in a wire's table.
Short ones between ranks of one host go through boxes in memory.

So a token is one program on any number of ranks. The caller's thread talks, the other threads of the rank wait at
the barrier that follows. A failure is written into the table, which ends the program at that barrier.

A message is begun at one end and at the other, then ended at both; of those to or from one rank only one at a time.
"""

from typing import Any

from llvmlite import ir
from numba import types

from dllama_py.kernels.barrier import pause, sched_yield
from dllama_py.kernels.boxes import boxes_of, has_come, is_for_box, next_message, put, take
from dllama_py.kernels.clock import now_ns
from dllama_py.kernels.codegen import I32, I64, define
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.vectors import get_i32, get_i64, set_i64
from dllama_py.wire import Trouble, WireWord

POLLS_BEFORE_YIELD = 64  # a few microseconds; then the CPU is offered to whoever has none
POLLS_PER_GLANCE = 64  # at the clock
LOOK_EVERY_NS = 5_000_000


def _call(builder: Any, function: Any, *arguments: Any) -> Any:
    """A C function that returns int. Narrower arguments stand in the low bits of their 64-bit registers."""
    kind = ir.FunctionType(I32, [I64] * len(arguments)).as_pointer()
    return builder.sext(builder.call(builder.inttoptr(function, kind), arguments), I64)


call_1 = define(types.int64, (types.intp,) * 2, _call, "call_1")
call_3 = define(types.int64, (types.intp,) * 4, _call, "call_3")
call_7 = define(types.int64, (types.intp,) * 8, _call, "call_7")


@njit(error_model="numpy")
def word(wire: int, number: int) -> Any:
    """A word of the table."""
    return get_i64(wire + 8 * number)


@njit(error_model="numpy")
def add_to(wire: int, number: int, amount: int) -> None:
    """Adds to a total of the table."""
    set_i64(wire + 8 * number, get_i64(wire + 8 * number) + amount)


@njit(error_model="numpy")
def begin_receiving(wire: int, partner: int, into: int, n_bytes: int) -> None:
    """From now on the partner's next message may come."""
    _, emptied = boxes_of(wire, partner)
    if not is_for_box(emptied, n_bytes):
        post(wire, WireWord.IRECV, into, n_bytes, partner, WireWord.RECEIVING)


@njit(error_model="numpy")
def begin_sending(wire: int, partner: int, content: int, n_bytes: int) -> None:
    """The content must stay until the end."""
    filled, _ = boxes_of(wire, partner)
    if is_for_box(filled, n_bytes):
        put(filled, content, n_bytes)
    else:
        post(wire, WireWord.ISEND, content, n_bytes, partner, WireWord.SENDING)


@njit(error_model="numpy")
def end_receiving(wire: int, partner: int, into: int, n_bytes: int) -> None:
    """Waits until the message is there."""
    filled, emptied = boxes_of(wire, partner)
    if is_for_box(emptied, n_bytes):
        message, number = next_message(emptied, filled)
        wait(wire, partner, WireWord.RECEIVING, message, number)
        if word(wire, WireWord.TROUBLE) == 0:
            check_length(wire, partner, take(message, number, filled, into, n_bytes), n_bytes)
    else:
        wait(wire, partner, WireWord.RECEIVING, 0, 0)
        check_length(wire, partner, received_bytes(wire), n_bytes)
    add_to(wire, WireWord.RECEIVED_BYTES, n_bytes)


@njit(error_model="numpy")
def end_sending(wire: int, partner: int, n_bytes: int) -> None:
    """Waits until the content is no longer needed."""
    filled, _ = boxes_of(wire, partner)
    if not is_for_box(filled, n_bytes):
        wait(wire, partner, WireWord.SENDING, 0, 0)
    add_to(wire, WireWord.SENT_BYTES, n_bytes)


@njit(error_model="numpy")
def count(wire: int, started: int, n_messages: int) -> None:
    """Adds to the table's totals what messages have taken since `started`."""
    add_to(wire, WireWord.NANOSECONDS, now_ns(wire + 8 * WireWord.CLOCK) - started)
    add_to(wire, WireWord.MESSAGES, n_messages)


@njit(error_model="numpy")
def post(wire: int, function: int, buffer: int, n_bytes: int, partner: int, request: int) -> None:
    """Starts to send or to receive."""
    if word(wire, WireWord.TROUBLE) != 0:
        return
    code = call_7(
        word(wire, function),
        buffer,
        n_bytes,
        word(wire, WireWord.BYTE),
        partner,
        word(wire, WireWord.TAG),
        word(wire, WireWord.WORLD),
        wire + 8 * request,
    )
    if code != 0:
        trouble(wire, Trouble.FAILED, partner, code)


@njit(error_model="numpy")
def wait(wire: int, partner: int, request: int, message: int, number: int) -> None:
    """Until the message of a box has come, or without one (0) the request is done, leaving the core to whoever else
    wants it, and looking round now and then.
    """
    polls, looked = 0, 0
    while word(wire, WireWord.TROUBLE) == 0:
        if has_come(message, number) if message != 0 else is_done(wire, partner, request):
            return
        polls += 1
        pause()
        if polls > POLLS_BEFORE_YIELD:
            sched_yield()
        if polls % POLLS_PER_GLANCE == 0:
            now = now_ns(wire + 8 * WireWord.CLOCK)
            if looked == 0:
                looked = now
            elif now - looked > LOOK_EVERY_NS:
                looked = now
                if call_1(word(wire, WireWord.LOOK_ROUND), partner) != 0:
                    trouble(wire, Trouble.GIVEN_UP, partner, 0)


@njit(error_model="numpy")
def is_done(wire: int, partner: int, request: int) -> bool:
    """Whether what was posted has come to its end."""
    flag, status = wire + 8 * WireWord.FLAG, wire + 8 * WireWord.STATUS
    code = call_3(word(wire, WireWord.TEST), wire + 8 * request, flag, status)
    if code != 0:
        trouble(wire, Trouble.FAILED, partner, code)
    return code == 0 and get_i32(flag) != 0


@njit(error_model="numpy")
def received_bytes(wire: int) -> Any:
    """Of the request that was done last."""
    if word(wire, WireWord.TROUBLE) != 0:
        return 0
    count = wire + 8 * WireWord.COUNT
    call_3(word(wire, WireWord.GET_COUNT), wire + 8 * WireWord.STATUS, word(wire, WireWord.BYTE), count)
    return get_i32(count)


@njit(error_model="numpy")
def check_length(wire: int, partner: int, received: int, expected: int) -> None:
    """A message of another length comes from another program."""
    if word(wire, WireWord.TROUBLE) == 0 and received != expected:
        set_i64(wire + 8 * WireWord.EXPECTED, expected)
        trouble(wire, Trouble.LENGTH, partner, received)


@njit(error_model="numpy")
def trouble(wire: int, kind: int, partner: int, detail: int) -> None:
    """Notes why the program ends."""
    set_i64(wire + 8 * WireWord.DETAIL, detail)
    set_i64(wire + 8 * WireWord.PARTNER, partner)
    set_i64(wire + 8 * WireWord.TROUBLE, kind)
