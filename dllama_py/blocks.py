"""Number formats of weights: block sizes, the definition of quantising and dequantising, in plain numpy.

These functions are the definition; `kernels/quantize.py` has the fast ones and must give the same bytes.
A tensor's bytes are handled as uint8 [rows, row_bytes]; blocks run along a row and never straddle two.

Sources: the q40 and q80 writer of distributed-llama (converter/writer.py, including its tie rule), the block
layouts of ggml (ggml-common.h). q40 is ggml's Q4_0, q80 its Q8_0.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dllama_py import codebook_blocks, k_blocks, plain_blocks
from dllama_py.block_parts import Parts, values_of
from dllama_py.float_types import BLOCK, SUPER_BLOCK, Bytes, Floats, FloatType

__all__ = [
    "BLOCK",
    "SUPER_BLOCK",
    "Bytes",
    "FloatType",
    "Floats",
    "dequantize",
    "parts_of",
    "quantize",
    "widen_bf16",
]

_NO_INVERSE = np.float32(2.0**-128)  # 1 / this and below overflows float32
_PARTS: dict[FloatType, Callable[[Bytes], Parts]] = plain_blocks.PARTS | k_blocks.PARTS | codebook_blocks.PARTS


def widen_bf16(bits: NDArray[np.uint16]) -> Floats:
    """bf16 is the upper half of a float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def quantize(x: Floats, kind: FloatType) -> Bytes:
    """float32 [rows, columns] -> uint8 [rows, row_bytes]; defined for f32, f16, q40 and q80."""
    x = np.ascontiguousarray(x, np.float32)
    if kind is FloatType.F32:
        return x.view(np.uint8)
    if kind is FloatType.F16:
        return x.astype(np.float16).view(np.uint8)
    blocks = x.reshape(x.shape[0], -1, BLOCK)  # [rows, B, 32]
    return {FloatType.Q40: _quantize_q40, FloatType.Q80: _quantize_q80}[kind](blocks).reshape(x.shape[0], -1)


def _quantize_q40(x: Floats) -> Bytes:
    """The extreme becomes code 0 or 16 clipped to 15; a tie of +a and -a goes to the positive one."""
    low = x.min(axis=-1)  # [rows, B]
    high = x.view(np.int32).max(axis=-1).view(np.float32)  # as integers, so that of 0 and -0 the 0 is found
    delta = np.where(-low > high, low, high) / np.float32(-8)  # [rows, B]
    codes = np.clip(x * _inverse(delta)[..., None] + np.float32(8.5), 0, 15).astype(np.uint8)
    out = np.empty((*delta.shape, 18), np.uint8)
    out[..., :2] = delta.astype(np.float16)[..., None].view(np.uint8)
    out[..., 2:] = codes[..., :16] | (codes[..., 16:] << 4)
    return out


def _quantize_q80(x: Floats) -> Bytes:
    delta = np.abs(x).max(axis=-1) / np.float32(127)  # [rows, B]
    out = np.empty((*delta.shape, 34), np.uint8)
    out[..., :2] = delta.astype(np.float16)[..., None].view(np.uint8)
    out[..., 2:] = np.rint(x * _inverse(delta)[..., None]).astype(np.int8).view(np.uint8)
    return out


def _inverse(delta: Floats) -> Floats:
    """1 / delta of the un-rounded float32 scale; 0 for a block that is zero or too small to have an inverse."""
    return np.divide(np.float32(1), delta, out=np.zeros_like(delta), where=np.abs(delta) > _NO_INVERSE)


def dequantize(data: Bytes, kind: FloatType) -> Floats:
    """uint8 [rows, row_bytes] -> float32 [rows, columns]."""
    data = np.ascontiguousarray(data)
    rows = data.shape[0]
    if kind is FloatType.F32:
        return data.view(np.float32)
    if kind is FloatType.F16:
        return data.view(np.float16).astype(np.float32)
    if kind is FloatType.BF16:
        return widen_bf16(data.view(np.uint16))
    return values_of(parts_of(data, kind)).reshape(rows, -1)


def parts_of(data: Bytes, kind: FloatType) -> Parts:
    """uint8 [rows, row_bytes] of a type that is not float -> the parts of its blocks [rows, blocks, ...]."""
    blocks = np.ascontiguousarray(data).reshape(data.shape[0], -1, kind.block_bytes)
    return _PARTS[kind](blocks)
