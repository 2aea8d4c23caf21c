"""Messages between ranks of one host through memory that both have (the boxes of wire.py).

MPI does the same in four calls, whose code a token's weights have driven out of the caches (docs/decisions/0008).
"""

from typing import Any

from llvmlite import ir
from numba import types

from dllama_py.kernels.barrier import atomic_load, atomic_store
from dllama_py.kernels.codegen import I8, I64, define, pointer
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.vectors import get_i64, set_i64
from dllama_py.wire import (
    BOX_MESSAGES,
    BOX_PUT,
    BOX_TAKEN,
    MESSAGE_BYTES,
    MESSAGE_CONTENT,
    MESSAGE_LENGTH,
    MESSAGE_MOST_BYTES,
    MESSAGE_NUMBER,
    WireWord,
)


def _copy_bytes(builder: Any, to: Any, source: Any, n_bytes: Any) -> None:
    is_volatile = ir.Constant(ir.IntType(1), 0)
    name = "llvm.memcpy.p0.p0.i64"
    kinds = [I8.as_pointer(), I8.as_pointer(), I64, is_volatile.type]
    function = builder.module.globals.get(name) or ir.Function(
        builder.module, ir.FunctionType(ir.VoidType(), kinds), name
    )
    builder.call(function, [pointer(builder, to, I8), pointer(builder, source, I8), n_bytes, is_volatile])


copy_bytes = define(types.void, (types.intp,) * 3, _copy_bytes, "copy_bytes")


@njit(error_model="numpy")
def boxes_of(wire: int, partner: int) -> tuple[Any, Any]:
    """The box to fill for the partner, and the one that it fills; 0 and 0 where there are none."""
    boxes = get_i64(wire + 8 * WireWord.BOXES)
    if boxes == 0:
        return 0, 0
    return get_i64(boxes + 16 * partner), get_i64(boxes + 16 * partner + 8)


@njit(error_model="numpy")
def is_for_box(box: int, n_bytes: int) -> bool:
    """Whether a message goes through the box: sender and receiver say the same of it."""
    return box != 0 and n_bytes <= MESSAGE_MOST_BYTES


@njit(error_model="numpy")
def message_at(box: int, number: int) -> Any:
    """Where a message is put."""
    return box + BOX_MESSAGES + (number & 1) * MESSAGE_BYTES


@njit(error_model="numpy")
def put(box: int, content: int, n_bytes: int) -> None:
    """The next message into a box."""
    number = get_i64(box + BOX_PUT) + 1
    at = message_at(box, number)
    copy_bytes(at + MESSAGE_CONTENT, content, n_bytes)
    set_i64(at + MESSAGE_LENGTH, n_bytes)
    atomic_store(at + MESSAGE_NUMBER, number)
    set_i64(box + BOX_PUT, number)


@njit(error_model="numpy")
def next_message(box: int, own: int) -> tuple[Any, Any]:
    """Where the next message of a box will be, and its number; `own`: the box that goes the other way."""
    number = get_i64(own + BOX_TAKEN) + 1
    return message_at(box, number), number


@njit(error_model="numpy")
def has_come(message: int, number: int) -> bool:
    """Whether it is there."""
    return atomic_load(message + MESSAGE_NUMBER) == number


@njit(error_model="numpy")
def take(message: int, number: int, own: int, into: int, most_bytes: int) -> Any:
    """Takes out a message that has come, as much of it as there is room for; its length."""
    n_bytes = get_i64(message + MESSAGE_LENGTH)
    copy_bytes(into, message + MESSAGE_CONTENT, min(n_bytes, most_bytes))
    set_i64(own + BOX_TAKEN, number)
    return n_bytes
