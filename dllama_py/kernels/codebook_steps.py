"""What one block of 32 columns adds to the totals, for codebook types; see weight_blocks.py.

Where scales of 32 columns take 4 bits, the header of a super-block has them all: after its half a word of nibbles, of
which the lowest belongs to the first block behind the header (it may be not the first of the super-block).
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from dllama_py.float_types import FloatType
from dllama_py.kernels.codebook_products import MXFP4_OFFSET, rows_dot_iq4, rows_dot_mxfp4
from dllama_py.kernels.codeword_products import (
    IQ1_OFFSET,
    rows_dot_first_iq1m,
    rows_dot_first_iq2s,
    rows_dot_iq1s,
    rows_dot_iq2xs,
    rows_dot_iq2xxs,
    rows_dot_iq3s,
    rows_dot_iq3xxs,
    rows_dot_last_iq1m,
    rows_dot_last_iq2s,
)
from dllama_py.kernels.layout import X_BLOCK_BYTES, X_SCALE, X_SUM_FIRST, X_SUM_LAST, block_bytes, header_bytes
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.tiles import (
    SIGNED_BIAS,
    rows_add_scaled,
    rows_splat_scaled,
    rows_splat_scaled_pair,
    rows_weighted_sum,
)
from dllama_py.kernels.vectors import (
    half_power_of_two,
    high_nibble,
    load_f16,
    load_i8,
    load_u8,
    load_u16,
    low_nibble,
    mul_f32,
    shift_right_i32,
    splat_f32,
    splat_i32,
    to_f32,
    twice_plus_one,
)

BIAS = np.int32(SIGNED_BIAS)
MXFP4_START, IQ1_START = np.int32(-MXFP4_OFFSET), np.int32(-IQ1_OFFSET)
QUARTER, EIGHTH, NONE = np.float32(0.25), np.float32(0.125), np.int32(0)


def _nibbles(kind: FloatType) -> Callable[..., Any]:
    """`f(header, weights)`: of each row the nibble of the block at `weights`, int32."""
    behind, size = header_bytes(kind), block_bytes(kind)

    @njit(forceinline=True, error_model="numpy")
    def nibbles(header: int, weights: int) -> Any:
        number = (weights - header - behind) // size
        halves = load_u16(header + 32 + 32 * (number // 4))
        return low_nibble(shift_right_i32(halves, np.int32(4 * (number % 4))))

    return nibbles


iq2xxs_scales, iq3xxs_scales = _nibbles(FloatType.IQ2XXS), _nibbles(FloatType.IQ3XXS)
iq3s_scales, iq1s_scales = _nibbles(FloatType.IQ3S), _nibbles(FloatType.IQ1S)
iq2xs_high_bits = _nibbles(FloatType.IQ2XS)


@njit(forceinline=True, error_model="numpy")
def factor(header: int, part: Any, scales: Any) -> Any:
    """d * part * (2 * scale + 1), exact: `part` is a power of two."""
    return mul_f32(mul_f32(load_f16(header), splat_f32(part)), to_f32(twice_plus_one(scales)))


@njit(forceinline=True, error_model="numpy")
def both_scales(address: int) -> Any:
    """2s + 1 of the scales of columns 0..15 and 16..31, in the nibbles of a byte, float32."""
    scales = load_u8(address)
    return to_f32(twice_plus_one(low_nibble(scales))), to_f32(twice_plus_one(high_nibble(scales)))


def _iq4nl(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_dot_iq4(rows_splat_scaled_pair(BIAS, x, at + X_SUM_FIRST), weights + 32, x, at)
    return rows_add_scaled(total, load_f16(weights), x, at + X_SCALE, isum)


def _iq4xs(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_dot_iq4(rows_splat_scaled_pair(BIAS, x, at + X_SUM_FIRST), weights + 16, x, at)
    return rows_add_scaled(total, mul_f32(load_f16(header), to_f32(load_i8(weights))), x, at + X_SCALE, isum)


def _mxfp4(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_dot_mxfp4(rows_splat_scaled_pair(MXFP4_START, x, at + X_SUM_FIRST), weights + 16, x, at)
    return rows_add_scaled(total, half_power_of_two(load_u8(weights)), x, at + X_SCALE, isum)


def _iq2xxs(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_dot_iq2xxs(rows_splat_scaled_pair(BIAS, x, at + X_SUM_FIRST), weights, splat_i32(NONE), x, at)
    scale = factor(header, EIGHTH, iq2xxs_scales(header, weights))
    return rows_add_scaled(total, scale, x, at + X_SCALE, isum)


def _iq2xs(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    high = iq2xs_high_bits(header, weights)
    of_first, of_last = both_scales(weights)
    isum = rows_dot_iq2xs(weights, high, of_first, of_last, x, at)
    return rows_add_scaled(total, mul_f32(load_f16(header), splat_f32(EIGHTH)), x, at + X_SCALE, isum)


def _iq2s(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    high = load_u8(weights + 144)
    first = rows_dot_first_iq2s(rows_splat_scaled(BIAS, x, at + X_SUM_FIRST), weights, high, x, at)
    last = rows_dot_last_iq2s(rows_splat_scaled(BIAS, x, at + X_SUM_LAST), weights, high, x, at)
    of_first, of_last = both_scales(weights + 128)
    isum = rows_weighted_sum(of_first, first, of_last, last)
    return rows_add_scaled(total, mul_f32(load_f16(header), splat_f32(EIGHTH)), x, at + X_SCALE, isum)


def _iq3xxs(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_dot_iq3xxs(rows_splat_scaled_pair(BIAS, x, at + X_SUM_FIRST), weights, splat_i32(NONE), x, at)
    scale = factor(header, QUARTER, iq3xxs_scales(header, weights))
    return rows_add_scaled(total, scale, x, at + X_SCALE, isum)


def _iq3s(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_dot_iq3s(rows_splat_scaled_pair(BIAS, x, at + X_SUM_FIRST), weights, load_u8(weights), x, at)
    scale = mul_f32(load_f16(header), to_f32(twice_plus_one(iq3s_scales(header, weights))))
    return rows_add_scaled(total, scale, x, at + X_SCALE, isum)


def _iq1s(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_dot_iq1s(rows_splat_scaled_pair(IQ1_START, x, at + X_SUM_FIRST), weights + 32, load_u16(weights), x, at)
    scale = factor(header, EIGHTH, iq1s_scales(header, weights))
    return rows_add_scaled(total, scale, x, at + X_SCALE, isum)


def _iq1m(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    high = load_u16(weights)
    first = rows_dot_first_iq1m(rows_splat_scaled(IQ1_START, x, at + X_SUM_FIRST), weights + 32, high, x, at)
    last = rows_dot_last_iq1m(rows_splat_scaled(IQ1_START, x, at + X_SUM_LAST), weights + 32, high, x, at)
    of_first, of_last = both_scales(weights + 96)
    isum = rows_weighted_sum(of_first, first, of_last, last)
    return rows_add_scaled(total, mul_f32(load_f16(header), splat_f32(EIGHTH)), x, at + X_SCALE, isum)


STEPS: dict[int, Callable[..., Any]] = {
    FloatType.IQ4NL.ggml_type: _iq4nl,
    FloatType.IQ4XS.ggml_type: _iq4xs,
    FloatType.MXFP4.ggml_type: _mxfp4,
    FloatType.IQ2XXS.ggml_type: _iq2xxs,
    FloatType.IQ2XS.ggml_type: _iq2xs,
    FloatType.IQ2S.ggml_type: _iq2s,
    FloatType.IQ3XXS.ggml_type: _iq3xxs,
    FloatType.IQ3S.ggml_type: _iq3s,
    FloatType.IQ1S.ggml_type: _iq1s,
    FloatType.IQ1M.ggml_type: _iq1m,
}
"""By ggml's type number: a step as add_block wants it."""
