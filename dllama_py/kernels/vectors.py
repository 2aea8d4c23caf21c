"""SIMD inside numba without C: vectors of 16 lanes and memory by address.

A numba extension type whose data model is an LLVM vector lets compiled code hold a register's worth of lanes in
a variable; LLVM splits 16 lanes into two or four registers where the CPU has no 512-bit ones. Every operation is
exact or rounded once (IEEE), on every CPU: this is what docs/arithmetic.md builds on. Addresses are plain integers
(numba's intp), any alignment.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.datamodel import models, register_default

from dllama_py.kernels.codegen import (
    FLOAT,
    I8,
    I32,
    I64,
    LANES,
    VF32,
    VI16,
    VI32,
    call_intrinsic,
    const,
    define,
    fused,
    load,
    pick_lanes,
    pointer,
    splat,
    store,
)
from dllama_py.kernels.halves import (
    bits_rounded_to_bf16,
    load_bfloats,
    narrow_half,
    saturate_half,
    store_bfloats,
    widen_half,
)


class VectorType(types.Type):
    """16 lanes of int32 or float32."""

    def __init__(self, name: str, llvm_type: Any) -> None:
        self.llvm_type = llvm_type
        super().__init__(name=f"Vector({name} x {LANES})")


@register_default(VectorType)
class VectorModel(models.PrimitiveModel):
    """A variable of this type is the LLVM value itself."""

    def __init__(self, manager: Any, fe_type: Any) -> None:
        super().__init__(manager, fe_type, fe_type.llvm_type)


i32x16 = VectorType("i32", VI32)
f32x16 = VectorType("f32", VF32)

# -- memory ---------------------------------------------------------------------------------------------------
_address = types.intp
load_i32 = define(i32x16, (_address,), lambda b, a: load(b, a, VI32), "load_i32")
load_f32 = define(f32x16, (_address,), lambda b, a: load(b, a, VF32), "load_f32")
load_f16 = define(f32x16, (_address,), lambda b, a: widen_half(b, load(b, a, VI16)), "load_f16")
load_bf16 = define(f32x16, (_address,), load_bfloats, "load_bf16")
load_i8 = define(i32x16, (_address,), lambda b, a: b.sext(load(b, a, ir.VectorType(I8, LANES)), VI32), "load_i8")
load_u16 = define(i32x16, (_address,), lambda b, a: b.zext(load(b, a, VI16), VI32), "load_u16")
load_u8 = define(i32x16, (_address,), lambda b, a: b.zext(load(b, a, ir.VectorType(I8, LANES)), VI32), "load_u8")
store_f32 = define(types.void, (_address, f32x16), store, "store_f32")
store_f16 = define(
    types.void, (_address, f32x16), lambda b, a, v: store(b, a, narrow_half(b, saturate_half(b, v))), "store_f16"
)
store_bf16 = define(types.void, (_address, f32x16), store_bfloats, "store_bf16")
store_i8 = define(
    types.void, (_address, i32x16), lambda b, a, v: store(b, a, b.trunc(v, ir.VectorType(I8, LANES))), "store_i8"
)
get_f32 = define(types.float32, (_address,), lambda b, a: load(b, a, FLOAT), "get_f32")
set_f32 = define(types.void, (_address, types.float32), store, "set_f32")
get_i32 = define(types.int32, (_address,), lambda b, a: load(b, a, I32), "get_i32")
set_i32 = define(types.void, (_address, types.int32), store, "set_i32")
get_i64 = define(types.int64, (_address,), lambda b, a: load(b, a, I64), "get_i64")
set_i64 = define(types.void, (_address, types.int64), store, "set_i64")


def _first_half(builder: Any, address: Any) -> Any:
    bits = splat(builder, load(builder, address, ir.IntType(16)))
    return builder.extract_element(widen_half(builder, bits), I32(0))


def _write_half(builder: Any, address: Any, x: Any) -> None:
    halves = narrow_half(builder, saturate_half(builder, splat(builder, x)))
    store(builder, address, builder.extract_element(halves, I32(0)))


widen_half_at = define(types.float32, (_address,), _first_half, "widen_half_at")
write_half = define(types.void, (_address, types.float32), _write_half, "write_half")
get_i16 = define(types.int16, (_address,), lambda b, a: load(b, a, ir.IntType(16)), "get_i16")
set_i16 = define(types.void, (_address, types.int16), store, "set_i16")
get_u8 = define(types.uint8, (_address,), lambda b, a: load(b, a, I8), "get_u8")
set_u8 = define(types.void, (_address, types.uint8), store, "set_u8")


def _prefetch_line(builder: Any, address: Any) -> None:
    """A hint that the cache line at the address will be read soon; never faults."""
    byte = pointer(builder, address, I8)
    kinds = [byte.type, I32, I32, I32]
    name = "llvm.prefetch.p0"
    function = builder.module.globals.get(name) or ir.Function(
        builder.module, ir.FunctionType(ir.VoidType(), kinds), name
    )
    builder.call(function, [byte, I32(0), I32(2), I32(1)])


prefetch_line = define(types.void, (_address,), _prefetch_line, "prefetch_line")

# -- lanes ----------------------------------------------------------------------------------------------------

splat_f32 = define(f32x16, (types.float32,), splat, "splat_f32")
splat_i32 = define(i32x16, (types.int32,), splat, "splat_i32")
zero_f32 = define(f32x16, (), lambda b: const(VF32, 0.0), "zero_f32")
add_f32 = define(f32x16, (f32x16,) * 2, lambda b, x, y: b.fadd(x, y), "add_f32")
sub_f32 = define(f32x16, (f32x16,) * 2, lambda b, x, y: b.fsub(x, y), "sub_f32")
mul_f32 = define(f32x16, (f32x16,) * 2, lambda b, x, y: b.fmul(x, y), "mul_f32")
div_f32 = define(f32x16, (f32x16,) * 2, lambda b, x, y: b.fdiv(x, y), "div_f32")
fma_f32 = define(f32x16, (f32x16,) * 3, fused, "fma_f32")
max_f32 = define(f32x16, (f32x16,) * 2, lambda b, x, y: b.select(b.fcmp_ordered(">", x, y), x, y), "max_f32")
neg_f32 = define(f32x16, (f32x16,), lambda b, v: b.fneg(v), "neg_f32")
min_f32 = define(f32x16, (f32x16,) * 2, lambda b, x, y: b.select(b.fcmp_ordered("<", x, y), x, y), "min_f32")
round_bf16 = define(f32x16, (f32x16,), lambda b, v: b.bitcast(bits_rounded_to_bf16(b, v), VF32), "round_bf16")
round_f16 = define(f32x16, (f32x16,), lambda b, v: widen_half(b, narrow_half(b, saturate_half(b, v))), "round_f16")
add_i32 = define(i32x16, (i32x16,) * 2, lambda b, x, y: b.add(x, y), "add_i32")
or_i32 = define(i32x16, (i32x16,) * 2, lambda b, x, y: b.or_(x, y), "or_i32")
low_nibble = define(i32x16, (i32x16,), lambda b, v: b.and_(v, const(VI32, 15)), "low_nibble")
high_nibble = define(i32x16, (i32x16,), lambda b, v: b.lshr(v, const(VI32, 4)), "high_nibble")
shift_right_i32 = define(i32x16, (i32x16, types.int32), lambda b, v, n: b.lshr(v, splat(b, n)), "shift_right_i32")
twice_plus_one = define(
    i32x16, (i32x16,), lambda b, v: b.or_(b.shl(v, const(VI32, 1)), const(VI32, 1)), "twice_plus_one"
)
shift_left_i32 = define(i32x16, (i32x16, types.int32), lambda b, v, n: b.shl(v, splat(b, n)), "shift_left_i32")


to_f32 = define(f32x16, (i32x16,), lambda b, v: b.sitofp(v, VF32), "to_f32")
to_i32 = define(i32x16, (f32x16,), lambda b, v: b.fptosi(v, VI32), "to_i32")


def _half_power_of_two(builder: Any, exponents: Any) -> Any:
    subnormal = builder.shl(const(VI32, 1 << 21), exponents)
    normal = builder.shl(builder.sub(exponents, const(VI32, 1)), const(VI32, 23))
    is_small = builder.icmp_unsigned("<", exponents, const(VI32, 2))
    return builder.bitcast(builder.select(is_small, subnormal, normal), VF32)


half_power_of_two = define(f32x16, (i32x16,), _half_power_of_two, "half_power_of_two")
"""half_power_of_two(e): 2^(e - 128) for e of 0..255, exact."""
f32_of_bits = define(f32x16, (i32x16,), lambda b, v: b.bitcast(v, VF32), "f32_of_bits")


def _halving(builder: Any, v: Any, combine: Callable[[Any, Any], Any]) -> Any:
    """Lane i with lane i+8, then 4, 2, 1."""
    for half in (8, 4, 2, 1):
        v = combine(pick_lanes(builder, v, list(range(half))), pick_lanes(builder, v, list(range(half, 2 * half))))
    return builder.extract_element(v, I32(0))


def _max_lanes(builder: Any, v: Any) -> Any:
    return _halving(builder, v, lambda x, y: builder.select(builder.fcmp_ordered(">", x, y), x, y))


def _largest_magnitude(builder: Any, a: Any, b: Any) -> Any:
    """Of 32 lanes, by their bits: so a NaN is larger than all and is not lost in comparisons."""

    def larger(x: Any, y: Any) -> Any:
        return builder.select(builder.icmp_signed(">", x, y), x, y)

    bits = [builder.and_(builder.bitcast(v, VI32), const(VI32, 0x7FFFFFFF)) for v in (a, b)]
    return builder.bitcast(_halving(builder, larger(*bits), larger), FLOAT)


def _first_lanes(builder: Any, v: Any, count: Any, other: Any) -> Any:
    numbers = ir.Constant(ir.VectorType(I64, LANES), list(range(LANES)))
    return builder.select(builder.icmp_signed("<", numbers, splat(builder, count)), v, other)


def _lanes_between(builder: Any, v: Any, first: Any, end: Any, other: Any) -> Any:
    numbers = ir.Constant(VI32, list(range(LANES)))
    first, end = builder.trunc(first, I32), builder.trunc(end, I32)
    beyond_first = builder.sub(numbers, splat(builder, first))
    return builder.select(builder.icmp_unsigned("<", beyond_first, splat(builder, builder.sub(end, first))), v, other)


def _zip(builder: Any, a: Any, b: Any, first: int) -> Any:
    order = [lane for i in range(first, first + LANES // 2) for lane in (i, LANES + i)]
    return builder.shuffle_vector(a, b, ir.Constant(VI32, order))


def _every_second(builder: Any, a: Any, b: Any, first: int) -> Any:
    return builder.shuffle_vector(a, b, ir.Constant(VI32, list(range(first, 2 * LANES, 2))))


def _both_sums(builder: Any, a: Any, b: Any) -> Any:
    low, high = list(range(8)), list(range(8, LANES))
    halves = [builder.add(pick_lanes(builder, v, low), pick_lanes(builder, v, high)) for v in (a, b)]
    v = builder.shuffle_vector(*halves, ir.Constant(VI32, list(range(LANES))))
    for distance in (4, 2, 1):
        v = builder.add(v, pick_lanes(builder, v, [lane ^ distance for lane in range(LANES)]))
    return v


sum_lanes = define(types.float32, (f32x16,), lambda b, v: _halving(b, v, b.fadd), "sum_lanes")
sum_lanes_i32 = define(types.int32, (i32x16,), lambda b, v: _halving(b, v, b.add), "sum_lanes_i32")
both_sums = define(i32x16, (i32x16,) * 2, _both_sums, "both_sums")
"""both_sums(a, b): the sum of a's lanes in each of the lanes 0 to 7, that of b's in the others."""
lane_i32 = define(types.int32, (i32x16, types.int64), lambda b, v, i: b.extract_element(v, i), "lane_i32")
max_lanes = define(types.float32, (f32x16,), _max_lanes, "max_lanes")
largest_magnitude = define(types.float32, (f32x16,) * 2, _largest_magnitude, "largest_magnitude")
first_lanes = define(f32x16, (f32x16, types.int64, f32x16), _first_lanes, "first_lanes")
"""first_lanes(v, count, other): lanes below `count` from v, the others from `other`."""
lanes_between = define(f32x16, (f32x16, types.int64, types.int64, f32x16), _lanes_between, "lanes_between")
"""lanes_between(v, first, end, other): lanes from `first` to before `end` from v, the others from `other`.

Both may lie outside the lanes, below 2^31 in magnitude; first <= end.
"""
evens = define(f32x16, (f32x16,) * 2, lambda b, x, y: _every_second(b, x, y, 0), "evens")
odds = define(f32x16, (f32x16,) * 2, lambda b, x, y: _every_second(b, x, y, 1), "odds")
zip_low = define(f32x16, (f32x16,) * 2, lambda b, x, y: _zip(b, x, y, 0), "zip_low")
zip_high = define(f32x16, (f32x16,) * 2, lambda b, x, y: _zip(b, x, y, LANES // 2), "zip_high")

# -- scalars --------------------------------------------------------------------------------------------------

fma = define(
    types.float32, (types.float32,) * 3, lambda b, x, y, z: call_intrinsic(b, "llvm.fma.f32", FLOAT, x, y, z), "fma"
)
sqrt = define(types.float32, (types.float32,), lambda b, x: call_intrinsic(b, "llvm.sqrt.f32", FLOAT, x), "sqrt")
