"""Atomics, and the barrier at which the threads of a rank meet between two instructions."""

from typing import Any

from llvmlite import ir
from numba import types

from dllama_py.kernels.codegen import I32, I64, define, pointer
from dllama_py.kernels.features import IS_ARM
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.vectors import get_i64, set_i64

_address = types.intp


def _atomic_add(builder: Any, address: Any, value: Any) -> Any:
    return builder.atomic_rmw("add", pointer(builder, address, I64), value, "acq_rel")


def _atomic_load(builder: Any, address: Any) -> Any:
    return builder.load_atomic(pointer(builder, address, I64), "acquire", 8, typ=I64)


def _atomic_store(builder: Any, address: Any, value: Any) -> None:
    builder.store_atomic(value, pointer(builder, address, I64), "release", 8)


def _pause(builder: Any) -> None:
    name, operands = ("llvm.aarch64.hint", [I32(1)]) if IS_ARM else ("llvm.x86.sse2.pause", [])
    function = builder.module.declare_intrinsic(name, (), ir.FunctionType(ir.VoidType(), [v.type for v in operands]))
    builder.call(function, operands)


atomic_add = define(types.int64, (_address, types.int64), _atomic_add, "atomic_add")
atomic_load = define(types.int64, (_address,), _atomic_load, "atomic_load")
atomic_store = define(types.void, (_address, types.int64), _atomic_store, "atomic_store")
pause = define(types.void, (), _pause, "pause")
sched_yield = types.ExternalFunction("sched_yield", types.int32())

SPINS_BEFORE_YIELD = 2_000  # tens of microseconds; then the CPU is offered to whoever has none

# Byte offsets in a team's shared words, each on a cache line of its own; what is read together shares one.
ARRIVED, PHASE, JOB, STATE_BYTES = 0, 64, 128, 256
IS_END = 72
JOB_LENGTH, JOB_PROGRAM, JOB_HALT, JOB_STAMPS = 192, 200, 208, 216


@njit(inline="always")
def meet(state: int, threads: int, halt: int) -> Any:
    """Barrier of `threads` threads; what any wrote before it is seen by all after it. Whether the word `halt` is set.

    The last to come reads it for all: one that leaves late must not see what another has written since.
    """
    if threads == 1:
        return get_i64(halt) != 0
    phase = atomic_load(state + PHASE)
    if atomic_add(state + ARRIVED, 1) == threads - 1:
        is_end = get_i64(halt)
        set_i64(state + IS_END, is_end)
        atomic_store(state + ARRIVED, 0)
        atomic_store(state + PHASE, phase + 1)
        return is_end != 0
    spins = 0
    while atomic_load(state + PHASE) == phase:
        pause()
        spins += 1
        if spins > SPINS_BEFORE_YIELD:
            sched_yield()
    return get_i64(state + IS_END) != 0
