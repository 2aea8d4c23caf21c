"""Halves and bfloats as LLVM code: exact widening, narrowing to nearest even, with and without F16C.

What is not a number stays so: its sign and upper bits are kept, it becomes quiet (as IEEE 754 and F16C have it).
"""

from typing import Any

from llvmlite import ir

from dllama_py.kernels.codegen import HALF, LANES, VF32, VI16, VI32, const, load, store
from dllama_py.kernels.features import HAS_HALF_CONVERSION

INFINITY, QUIET = 0x7F800000, 0x00400000  # bits of float32: above INFINITY is not a number


def widen_half(builder: Any, bits: Any) -> Any:
    """<16 x i16> -> <16 x float>, exact. Without F16C LLVM would call a routine that numba does not link."""
    if HAS_HALF_CONVERSION:
        return builder.fpext(builder.bitcast(bits, ir.VectorType(HALF, LANES)), VF32)
    wide = builder.zext(bits, VI32)
    sign = builder.shl(builder.and_(wide, const(VI32, 0x8000)), const(VI32, 16))
    magnitude = builder.shl(builder.and_(wide, const(VI32, 0x7FFF)), const(VI32, 13))
    scaled = builder.bitcast(builder.fmul(builder.bitcast(magnitude, VF32), const(VF32, 2.0**112)), VI32)
    infinity = const(VI32, 0x7C00 << 13)
    special = builder.icmp_unsigned(">=", magnitude, infinity)
    scaled = builder.select(special, builder.or_(scaled, const(VI32, INFINITY)), scaled)
    not_number = builder.icmp_unsigned(">", magnitude, infinity)
    scaled = builder.select(not_number, builder.or_(scaled, const(VI32, QUIET)), scaled)
    return builder.bitcast(builder.or_(scaled, sign), VF32)


def narrow_half(builder: Any, v: Any) -> Any:
    """<16 x float> of magnitude at most 65504, or not a number -> <16 x i16>, to nearest even."""
    if HAS_HALF_CONVERSION:
        return builder.bitcast(builder.fptrunc(v, ir.VectorType(HALF, LANES)), VI16)
    bits = builder.bitcast(v, VI32)
    sign = builder.lshr(builder.and_(bits, const(VI32, -0x80000000)), const(VI32, 16))
    magnitude = builder.and_(bits, const(VI32, 0x7FFFFFFF))
    odd = builder.and_(builder.lshr(magnitude, const(VI32, 13)), const(VI32, 1))
    rounded = builder.add(builder.add(magnitude, const(VI32, 0xFFF)), odd)
    normal = builder.sub(builder.lshr(rounded, const(VI32, 13)), const(VI32, 112 << 10))
    # Adding 0.5 leaves a last place of 2^-24, which is the step of a subnormal half.
    shifted = builder.fadd(builder.bitcast(magnitude, VF32), const(VF32, 0.5))
    subnormal = builder.sub(builder.bitcast(shifted, VI32), const(VI32, 0x3F000000))
    is_small = builder.icmp_unsigned("<", magnitude, const(VI32, 113 << 23))
    half = builder.select(is_small, subnormal, normal)
    quiet = builder.or_(builder.lshr(magnitude, const(VI32, 13)), const(VI32, 0x7E00))
    half = builder.select(_is_not_number(builder, magnitude), builder.and_(quiet, const(VI32, 0x7FFF)), half)
    return builder.trunc(builder.or_(half, sign), VI16)


def _is_not_number(builder: Any, magnitude: Any) -> Any:
    return builder.icmp_unsigned(">", magnitude, const(VI32, INFINITY))


def saturate_half(builder: Any, v: Any) -> Any:
    """Beyond 65504, infinite too, becomes 65504; what is not a number stays."""
    low = builder.select(builder.fcmp_ordered("<", v, const(VF32, -65504.0)), const(VF32, -65504.0), v)
    return builder.select(builder.fcmp_ordered(">", low, const(VF32, 65504.0)), const(VF32, 65504.0), low)


def bits_rounded_to_bf16(builder: Any, v: Any) -> Any:
    """The bits of v rounded to nearest even at the upper 16; the lower 16 are zero. Infinities stay."""
    bits = builder.bitcast(v, VI32)
    odd = builder.and_(builder.lshr(bits, const(VI32, 16)), const(VI32, 1))
    rounded = builder.add(builder.add(bits, const(VI32, 0x7FFF)), odd)
    magnitude = builder.and_(bits, const(VI32, 0x7FFFFFFF))
    kept = builder.select(_is_not_number(builder, magnitude), builder.or_(bits, const(VI32, QUIET)), rounded)
    return builder.and_(kept, const(VI32, -0x10000))


def load_bfloats(builder: Any, address: Any) -> Any:
    """16 bfloats at an address -> <16 x float>, exact."""
    wide = builder.zext(load(builder, address, VI16), VI32)
    return builder.bitcast(builder.shl(wide, const(VI32, 16)), VF32)


def store_bfloats(builder: Any, address: Any, v: Any) -> None:
    """<16 x float> -> 16 bfloats at an address, to nearest even."""
    store(builder, address, builder.trunc(builder.lshr(bits_rounded_to_bf16(builder, v), const(VI32, 16)), VI16))
