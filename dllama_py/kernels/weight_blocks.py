"""What one block of 32 columns adds to the totals, for each weights type.

`add_block(kind, total, header, weights, x, b)` returns the tile `total` after block b: `weights` is the address of the
packed block of 16 rows, `header` that of what its super-block shares, `x` the addresses of the activation rows. `kind`
is a Constant, the ggml type number.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload

from dllama_py.float_types import FloatType
from dllama_py.kernels import codebook_steps
from dllama_py.kernels.code_products import (
    rows_dot_fives,
    rows_dot_nibbles,
    rows_dot_pairs,
    rows_dot_sixes,
    rows_dot_threes,
)
from dllama_py.kernels.layout import (
    F32_BLOCK_BYTES,
    FIELDS,
    X_BLOCK_BYTES,
    X_SCALE,
    X_SCALED_SUM,
    X_SUM_FIRST,
    X_SUM_LAST,
    block_bytes,
    header_bytes,
)
from dllama_py.kernels.subroutines import OPTIONS
from dllama_py.kernels.tiles import (
    SIGNED_BIAS,
    rows_add_f32,
    rows_add_scaled,
    rows_dot4_signed,
    rows_fma,
    rows_fma_at,
    rows_scale_at,
    rows_splat_scaled,
    rows_splat_scaled_pair,
    rows_weighted_sum,
    rows_zero_like,
)
from dllama_py.kernels.vectors import (
    high_nibble,
    load_bf16,
    load_f16,
    load_f32,
    load_i8,
    load_i32,
    load_u8,
    low_nibble,
    mul_f32,
    to_f32,
)

MINUS_4, MINUS_8, MINUS_16, MINUS_32 = (np.int32(-offset) for offset in (4, 8, 16, 32))
BIAS, ZERO, ONE = np.int32(SIGNED_BIAS), np.int32(0), np.int32(1)


def _q40(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_dot_nibbles(MINUS_8, weights + 32, x, at)
    return rows_add_scaled(total, load_f16(weights), x, at + X_SCALE, isum)


def _q41(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_dot_nibbles(ZERO, weights + 64, x, at)
    total = rows_add_scaled(total, load_f16(weights), x, at + X_SCALE, isum)
    return rows_fma_at(total, load_f16(weights + 32), x, at + X_SCALED_SUM)


def _q50(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_dot_fives(MINUS_16, weights + 32, x, at)
    return rows_add_scaled(total, load_f16(weights), x, at + X_SCALE, isum)


def _q51(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_dot_fives(ZERO, weights + 64, x, at)
    total = rows_add_scaled(total, load_f16(weights), x, at + X_SCALE, isum)
    return rows_fma_at(total, load_f16(weights + 32), x, at + X_SCALED_SUM)


def _q80(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_splat_scaled_pair(BIAS, x, at + X_SUM_FIRST)
    for j in range(8):
        isum = rows_dot4_signed(isum, load_i32(weights + 32 + 64 * j), x, at + 4 * j)
    return rows_add_scaled(total, load_f16(weights), x, at + X_SCALE, isum)


def _q2k(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    first, last = load_u8(weights), load_u8(weights + 16)
    isum = rows_dot_pairs(ZERO, weights + 32, to_f32(low_nibble(first)), to_f32(low_nibble(last)), x, at)
    total = rows_add_scaled(total, load_f16(header), x, at + X_SCALE, isum)
    xsum_first, xsum_last = rows_splat_scaled(ONE, x, at + X_SUM_FIRST), rows_splat_scaled(ONE, x, at + X_SUM_LAST)
    msum = rows_weighted_sum(to_f32(high_nibble(first)), xsum_first, to_f32(high_nibble(last)), xsum_last)
    return rows_fma(total, load_f16(header + 32), rows_scale_at(msum, x, at + X_SCALE))


def _q3k(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_dot_threes(MINUS_4, weights + 32, to_f32(load_i8(weights)), to_f32(load_i8(weights + 16)), x, at)
    return rows_add_scaled(total, load_f16(header), x, at + X_SCALE, isum)


def _q4k(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_dot_nibbles(ZERO, weights + 32, x, at)
    scale, minimum = to_f32(load_i8(weights)), to_f32(load_i8(weights + 16))
    total = rows_add_scaled(total, mul_f32(load_f16(header), scale), x, at + X_SCALE, isum)
    return rows_fma_at(total, mul_f32(load_f16(header + 32), minimum), x, at + X_SCALED_SUM)


def _q5k(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_dot_fives(ZERO, weights + 32, x, at)
    scale, minimum = to_f32(load_i8(weights)), to_f32(load_i8(weights + 16))
    total = rows_add_scaled(total, mul_f32(load_f16(header), scale), x, at + X_SCALE, isum)
    return rows_fma_at(total, mul_f32(load_f16(header + 32), minimum), x, at + X_SCALED_SUM)


def _q6k(kind, total, header, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_dot_sixes(MINUS_32, weights + 32, to_f32(load_i8(weights)), to_f32(load_i8(weights + 16)), x, at)
    return rows_add_scaled(total, load_f16(header), x, at + X_SCALE, isum)


def _f32(kind, total, header, weights, x, b):
    block = rows_zero_like(total)
    for c in range(32):
        block = rows_fma_at(block, load_f32(weights + 64 * c), x, b * F32_BLOCK_BYTES + 4 * c)
    return rows_add_f32(total, block)


def _f16(kind, total, header, weights, x, b):
    block = rows_zero_like(total)
    for c in range(32):
        block = rows_fma_at(block, load_f16(weights + 32 * c), x, b * F32_BLOCK_BYTES + 4 * c)
    return rows_add_f32(total, block)


def _bf16(kind, total, header, weights, x, b):
    block = rows_zero_like(total)
    for c in range(32):
        block = rows_fma_at(block, load_bf16(weights + 32 * c), x, b * F32_BLOCK_BYTES + 4 * c)
    return rows_add_f32(total, block)


_STEPS: dict[int, Callable[..., Any]] = {
    FloatType.F32.ggml_type: _f32,
    FloatType.F16.ggml_type: _f16,
    FloatType.BF16.ggml_type: _bf16,
    FloatType.Q40.ggml_type: _q40,
    FloatType.Q41.ggml_type: _q41,
    FloatType.Q50.ggml_type: _q50,
    FloatType.Q51.ggml_type: _q51,
    FloatType.Q80.ggml_type: _q80,
    FloatType.Q2K.ggml_type: _q2k,
    FloatType.Q3K.ggml_type: _q3k,
    FloatType.Q4K.ggml_type: _q4k,
    FloatType.Q5K.ggml_type: _q5k,
    FloatType.Q6K.ggml_type: _q6k,
} | codebook_steps.STEPS


_KINDS = {kind.ggml_type: kind for kind in FIELDS}


def bytes_of_block(kind):
    """Bytes of a packed block; only inside compiled code."""
    raise RuntimeError("bytes_of_block runs in compiled code only")


@overload(bytes_of_block, jit_options=OPTIONS)
def _bytes_of_block(kind):
    n_bytes = block_bytes(_KINDS[kind.number])
    return lambda kind: n_bytes


def bytes_of_header(kind):
    """Bytes before the blocks of a super-block, 0 for types without; only inside compiled code."""
    raise RuntimeError("bytes_of_header runs in compiled code only")


@overload(bytes_of_header, jit_options=OPTIONS)
def _bytes_of_header(kind):
    n_bytes = header_bytes(_KINDS[kind.number])
    return lambda kind: n_bytes


def add_block(kind, total, header, weights, x, b):
    """Only inside compiled code; see the module's docstring."""
    raise RuntimeError("add_block runs in compiled code only")


@overload(add_block, jit_options={"forceinline": True, "error_model": "numpy"} | OPTIONS)
def _choose_step(kind, total, header, weights, x, b):
    return _STEPS[kind.number]
