"""What one block of 32 columns adds to the totals, for each weights type.

`add_block(kind, total, weights, x, b)` returns the tile `total` after block b: `weights` is the address of the packed
block of 16 rows, `x` the addresses of the activation rows. `kind` is a Constant, the ggml type number.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba.extending import overload

from dllama_py.blocks import FloatType
from dllama_py.kernels.layout import (
    F32_BLOCK_BYTES,
    PACKED_BLOCK_BYTES,
    X_BLOCK_BYTES,
    X_SCALE,
    X_SUM,
    X_SUM_FIRST,
    X_SUM_LAST,
)
from dllama_py.kernels.tiles import (
    SIGNED_BIAS,
    rows_add_f32,
    rows_add_scaled,
    rows_add_scaled_sum,
    rows_dot4,
    rows_dot4_signed,
    rows_dot_nibbles,
    rows_fma_at,
    rows_mul_add_i32,
    rows_splat_scaled,
    rows_zero_i32,
    rows_zero_like,
)
from dllama_py.kernels.vectors import (
    high_bit_pair,
    high_nibbles,
    load_bf16,
    load_f16,
    load_f32,
    load_i8,
    load_i32,
    low_nibbles,
    or_i32,
)

MINUS_8, MINUS_32 = np.int32(-8), np.int32(-32)
BIAS, ZERO = np.int32(SIGNED_BIAS), np.int32(0)


def _q40(kind, total, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_splat_scaled(MINUS_8, x, at + X_SUM)
    isum = rows_dot_nibbles(isum, weights + 32, x, at)
    return rows_add_scaled(total, load_f16(weights), x, at + X_SCALE, isum)


def _q41(kind, total, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_zero_i32(total)
    isum = rows_dot_nibbles(isum, weights + 64, x, at)
    total = rows_add_scaled(total, load_f16(weights), x, at + X_SCALE, isum)
    return rows_add_scaled_sum(total, load_f16(weights + 32), x, at + X_SCALE, at + X_SUM)


def _q80(kind, total, weights, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_splat_scaled(BIAS, x, at + X_SUM)
    for j in range(8):
        isum = rows_dot4_signed(isum, load_i32(weights + 32 + 64 * j), x, at + 4 * j)
    return rows_add_scaled(total, load_f16(weights), x, at + X_SCALE, isum)


def _q6k(kind, total, weights, x, b):
    at = b * X_BLOCK_BYTES
    first = rows_splat_scaled(MINUS_32, x, at + X_SUM_FIRST)
    last = rows_splat_scaled(MINUS_32, x, at + X_SUM_LAST)
    high_first, high_last = load_i32(weights + 320), load_i32(weights + 384)
    for j in range(4):
        v = load_i32(weights + 64 + 64 * j)
        first = rows_dot4(first, or_i32(low_nibbles(v), high_bit_pair(high_first, j)), x, at + 4 * j)
        last = rows_dot4(last, or_i32(high_nibbles(v), high_bit_pair(high_last, j)), x, at + 16 + 4 * j)
    isum = rows_mul_add_i32(rows_zero_i32(total), load_i8(weights + 32), first)
    isum = rows_mul_add_i32(isum, load_i8(weights + 48), last)
    return rows_add_scaled(total, load_f16(weights), x, at + X_SCALE, isum)


def _f32(kind, total, weights, x, b):
    block = rows_zero_like(total)
    for c in range(32):
        block = rows_fma_at(block, load_f32(weights + 64 * c), x, b * F32_BLOCK_BYTES + 4 * c)
    return rows_add_f32(total, block)


def _f16(kind, total, weights, x, b):
    block = rows_zero_like(total)
    for c in range(32):
        block = rows_fma_at(block, load_f16(weights + 32 * c), x, b * F32_BLOCK_BYTES + 4 * c)
    return rows_add_f32(total, block)


def _bf16(kind, total, weights, x, b):
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
    FloatType.Q80.ggml_type: _q80,
    FloatType.Q6K.ggml_type: _q6k,
}


_PACKED_BYTES = {kind.ggml_type: n_bytes for kind, n_bytes in PACKED_BLOCK_BYTES.items()}


def block_bytes(kind):
    """Bytes of a packed block; only inside compiled code."""
    raise RuntimeError("block_bytes runs in compiled code only")


@overload(block_bytes)
def _block_bytes(kind):
    n_bytes = _PACKED_BYTES[kind.number]
    return lambda kind: n_bytes


def add_block(kind, total, weights, x, b):
    """Only inside compiled code; see the module's docstring."""
    raise RuntimeError("add_block runs in compiled code only")


@overload(add_block, jit_options={"forceinline": True, "error_model": "numpy"})
def _choose_step(kind, total, weights, x, b):
    return _STEPS[kind.number]
