"""What code generation is made of: LLVM types, `define` for intrinsics, and small pieces of LLVM code.

Kernels do not import this; `vectors.py`, `halves.py`, `dot4.py` and `tiles.py` are built on it.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.extending import intrinsic

LANES = 16

I8, I16, I32, I64 = (ir.IntType(bits) for bits in (8, 16, 32, 64))
HALF, FLOAT = ir.HalfType(), ir.FloatType()
VI16, VI32, VF32 = (ir.VectorType(element, LANES) for element in (I16, I32, FLOAT))


def define(result: Any, arguments: tuple[Any, ...], build: Callable[..., Any], name: str) -> Any:
    """An intrinsic of fixed types whose LLVM code is `build(builder, *values)`; no value returned means void."""

    def typer(typingctx: Any, *given: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            value = build(builder, *values)
            return context.get_dummy_value() if value is None else value

        return result(*arguments), codegen

    return intrinsic(_with_arity(typer, len(arguments), name))


def _with_arity(typer: Callable[..., Any], n_arguments: int, name: str) -> Callable[..., Any]:
    """numba reads the number of arguments off the Python signature, so it needs one that names them."""
    names = ", ".join(f"a{i}" for i in range(n_arguments))
    scope: dict[str, Any] = {"typer": typer}
    exec(f"def {name}(typingctx{', ' if names else ''}{names}): return typer(typingctx, {names})", scope)
    function: Callable[..., Any] = scope[name]
    return function


def pointer(builder: Any, address: Any, llvm_type: Any) -> Any:
    """An address as a pointer to that type."""
    return builder.inttoptr(address, llvm_type.as_pointer())


def load(builder: Any, address: Any, llvm_type: Any) -> Any:
    """Reads a value at any alignment, since blocks of 18 or 34 bytes give none."""
    return builder.load(pointer(builder, address, llvm_type), align=1)


def store(builder: Any, address: Any, value: Any) -> None:
    """Writes a value at any alignment."""
    builder.store(value, pointer(builder, address, value.type), align=1)


def stack_room(builder: Any, llvm_type: Any, align: int) -> Any:
    """The address of memory for a value of this type, as long as the function runs; numba's own way would zero it."""
    with builder.goto_entry_block():
        memory = builder.alloca(llvm_type)
    memory.align = align
    return builder.ptrtoint(memory, I64)


def const(vector: Any, value: Any) -> Any:
    """The same constant in all 16 lanes of that vector type."""
    return ir.Constant(vector, [value] * LANES)


def splat(builder: Any, scalar: Any) -> Any:
    """A scalar in all 16 lanes."""
    vector = ir.VectorType(scalar.type, LANES)
    first = builder.insert_element(ir.Constant(vector, ir.Undefined), scalar, I32(0))
    return builder.shuffle_vector(first, first, ir.Constant(VI32, [0] * LANES))


def pick_lanes(builder: Any, v: Any, picked: list[int]) -> Any:
    """A vector of the picked lanes of v, in this order."""
    return builder.shuffle_vector(v, v, ir.Constant(ir.VectorType(I32, len(picked)), picked))


def call_intrinsic(builder: Any, name: str, result: Any, *values: Any) -> Any:
    """LLVM's intrinsic of that name; `result` is the type of what it gives."""
    function = builder.module.declare_intrinsic(name, (), ir.FunctionType(result, [v.type for v in values]))
    return builder.call(function, values)


def fused(builder: Any, a: Any, b: Any, c: Any) -> Any:
    """a * b + c of 16 lanes, rounded once on every CPU: where there is no such instruction, LLVM calls fmaf."""
    return call_intrinsic(builder, "llvm.fma.v16f32", VF32, a, b, c)
