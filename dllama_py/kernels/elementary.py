"""Pieces that kernels are made of: exp, gated activations, rms norm, rounding and quantising (docs/arithmetic.md).

All are inlined into the kernels that use them; addresses are integers.
"""

from typing import Any

import numpy as np

from dllama_py.kernels.layout import X_SCALE, X_SCALED_SUM, X_SUM_FIRST, X_SUM_LAST
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.vectors import (
    add_f32,
    add_i32,
    both_sums,
    div_f32,
    f32_of_bits,
    fma_f32,
    lane_i32,
    largest_magnitude,
    load_f32,
    max_f32,
    min_f32,
    mul_f32,
    round_bf16,
    round_f16,
    set_f32,
    set_i32,
    shift_left_i32,
    splat_f32,
    splat_i32,
    sqrt,
    store_f32,
    store_i8,
    sub_f32,
    sum_lanes,
    to_i32,
    zero_f32,
)

ONE, MINUS_ONE = np.float32(1), np.float32(-1)
LOWEST = np.float32(-3.4028235e38)  # of all finite numbers
SMALLEST_NORMAL, LARGEST = np.float32(2.0**-126), np.float32(3.4028235e38)
CODES = np.float32(127)
ROUNDER = np.float32(12582912.0)  # 1.5 * 2^23: adding it rounds to an integer, to nearest even

EXP_LOW, EXP_HIGH = np.float32(-87), np.float32(88)
LOG2_E = np.float32(1.44269504)
LN2_HIGH, LN2_LOW = np.float32(-0.693359375), np.float32(2.12194440e-4)
EXP_0, EXP_1, EXP_2 = np.float32(1.9875691500e-4), np.float32(1.3981999507e-3), np.float32(8.3334519073e-3)
EXP_3, EXP_4, EXP_5 = np.float32(4.1665795894e-2), np.float32(1.6666665459e-1), np.float32(5.0000001201e-1)
EXPONENT_BIAS, EXPONENT_SHIFT = np.int32(127), np.int32(23)

GELU_LINEAR, GELU_CUBIC = np.float32(-1.5957691216), np.float32(-0.07135481628)  # -2 sqrt(2/pi), that times 0.044715
SWIGLU_SLOPE, SWIGLU_LIMIT, SWIGLU_LOWEST = np.float32(-1.702), np.float32(7), np.float32(-7)  # of gpt-oss

KEEP_F32, ROUND_BF16, ROUND_Q80 = 0, 1, 2  # what the nodes of the reduction tree are rounded to


@njit(forceinline=True)
def round_to_even(v: Any) -> Any:
    """Nearest integers of lanes below 2^22 in magnitude."""
    rounder = splat_f32(ROUNDER)
    return sub_f32(add_f32(v, rounder), rounder)


@njit(forceinline=True)
def exp(x: Any) -> Any:
    """exp of 16 lanes, clamped to [-87, 88]; relative error below 2e-7."""
    x = max_f32(min_f32(x, splat_f32(EXP_HIGH)), splat_f32(EXP_LOW))
    rounder = splat_f32(ROUNDER)
    n = sub_f32(fma_f32(x, splat_f32(LOG2_E), rounder), rounder)
    r = fma_f32(n, splat_f32(LN2_HIGH), x)
    r = fma_f32(n, splat_f32(LN2_LOW), r)
    p = fma_f32(splat_f32(EXP_0), r, splat_f32(EXP_1))
    p = fma_f32(p, r, splat_f32(EXP_2))
    p = fma_f32(p, r, splat_f32(EXP_3))
    p = fma_f32(p, r, splat_f32(EXP_4))
    p = fma_f32(p, r, splat_f32(EXP_5))
    y = add_f32(fma_f32(p, mul_f32(r, r), r), splat_f32(ONE))
    power = shift_left_i32(add_i32(to_i32(n), splat_i32(EXPONENT_BIAS)), EXPONENT_SHIFT)
    return mul_f32(y, f32_of_bits(power))


@njit(forceinline=True)
def silu(x: Any) -> Any:
    """x / (1 + exp(-x)) of 16 lanes."""
    return div_f32(x, add_f32(splat_f32(ONE), exp(mul_f32(x, splat_f32(MINUS_ONE)))))


@njit(forceinline=True)
def silu_gated(gate: Any, up: Any) -> Any:
    """silu(gate) * up of 16 lanes."""
    return mul_f32(silu(gate), up)


@njit(forceinline=True)
def gelu_gated(gate: Any, up: Any) -> Any:
    """gelu(gate) * up of 16 lanes, gelu in its tanh form: 0.5 (1 + tanh(y)) is 1 / (1 + exp(-2y))."""
    slope = fma_f32(mul_f32(gate, gate), splat_f32(GELU_CUBIC), splat_f32(GELU_LINEAR))
    return mul_f32(div_f32(gate, add_f32(splat_f32(ONE), exp(mul_f32(gate, slope)))), up)


@njit(forceinline=True)
def clamped_swiglu(gate: Any, up: Any) -> Any:
    """gate / (1 + exp(-1.702 gate)) * (up + 1) of 16 lanes; gate at most 7, up within -7 to 7. A NaN stays one."""
    gate = min_f32(splat_f32(SWIGLU_LIMIT), gate)
    up = max_f32(splat_f32(SWIGLU_LOWEST), min_f32(splat_f32(SWIGLU_LIMIT), up))
    glu = div_f32(gate, add_f32(splat_f32(ONE), exp(mul_f32(gate, splat_f32(SWIGLU_SLOPE)))))
    return mul_f32(glu, add_f32(up, splat_f32(ONE)))


@njit(forceinline=True)
def inverse_rms(x: int, n: int, epsilon: float) -> Any:
    """1 / sqrt(mean of squares + epsilon) of n floats at x; n a multiple of 16."""
    total = zero_f32()
    for i in range(0, n, 16):
        v = load_f32(x + 4 * i)
        total = fma_f32(v, v, total)
    mean = sum_lanes(total) / np.float32(n)
    return ONE / sqrt(mean + epsilon)


@njit(forceinline=True)
def normalized(x: int, weight: int, inverse: float) -> Any:
    """16 elements of an rms norm: (x * inverse) * weight."""
    return mul_f32(mul_f32(load_f32(x), splat_f32(inverse)), load_f32(weight))


@njit(forceinline=True)
def scale_of(largest: float) -> Any:
    """The scale of values of which that is the largest magnitude."""
    scale = largest / CODES
    if scale < SMALLEST_NORMAL:
        return np.float32(0)
    return scale


@njit(forceinline=True)
def block_scale(a: Any, b: Any) -> Any:
    """amax / 127 of a block of 32; 0 where that is below the smallest normal number, NaN where one of them is."""
    return scale_of(largest_magnitude(a, b))


@njit(forceinline=True)
def codes_of(v: Any, scale: float) -> Any:
    """round_half_even(v * (1 / scale)), as floats; 0 where the scale is 0 or not finite."""
    if not (np.float32(0) < scale <= LARGEST):
        return zero_f32()
    return round_to_even(mul_f32(v, splat_f32(ONE / scale)))


@njit(forceinline=True)
def quantize_block(a: Any, b: Any, out: int) -> None:
    """32 activations (lanes of a, then of b) to a 48-byte block at `out` (layout.py)."""
    scale = block_scale(a, b)
    first, last = to_i32(codes_of(a, scale)), to_i32(codes_of(b, scale))
    store_i8(out, first)
    store_i8(out + 16, last)
    sums = both_sums(first, last)
    sum_first, sum_last = lane_i32(sums, 0), lane_i32(sums, 15)
    set_f32(out + X_SCALE, scale)
    set_i32(out + X_SUM_FIRST, sum_first)
    set_i32(out + X_SUM_LAST, sum_last)
    set_f32(out + X_SCALED_SUM, scale * np.float32(sum_first + sum_last))


@njit(forceinline=True)
def store_rounded(a: Any, b: Any, rounding: int, out: int) -> None:
    """32 values of a node of the reduction tree, rounded to the exchange format, as floats."""
    if rounding == ROUND_BF16:
        store_f32(out, round_bf16(a))
        store_f32(out + 64, round_bf16(b))
    elif rounding == ROUND_Q80:
        scale = block_scale(a, b)
        half = round_f16(splat_f32(scale))
        zero = zero_f32()  # added so that a scale of zero gives 0 and not -0, as it would after travelling
        store_f32(out, add_f32(mul_f32(half, codes_of(a, scale)), zero))
        store_f32(out + 64, add_f32(mul_f32(half, codes_of(b, scale)), zero))
    else:
        store_f32(out, a)
        store_f32(out + 64, b)
