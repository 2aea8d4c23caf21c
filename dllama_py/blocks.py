"""Number formats of weights: block sizes, the definition of quantising and dequantising, in plain numpy.

These functions are the definition; `kernels/quantize.py` has the fast ones and must give the same bytes.
A tensor's bytes are handled as uint8 [rows, row_bytes]; blocks run along a row and never straddle two.

Sources: the q40 and q80 writer of distributed-llama (converter/writer.py, including its tie rule), the block
layouts of ggml (ggml-common.h). q40 is ggml's Q4_0, q80 its Q8_0.
"""

from enum import Enum

import numpy as np
from numpy.typing import NDArray

BLOCK = 32  # columns; every type is cut and multiplied in runs of 32
SUPER_BLOCK = 256  # columns of a K type's file block
_NO_INVERSE = np.float32(2.0**-128)  # 1 / this and below overflows float32

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


class FloatType(Enum):
    """A storage type: (name, elements of a file block, bytes of a file block, ggml type number)."""

    F32 = ("f32", 1, 4, 0)
    F16 = ("f16", 1, 2, 1)
    BF16 = ("bf16", 1, 2, 30)
    Q40 = ("q40", 32, 18, 2)
    Q41 = ("q41", 32, 20, 3)
    Q80 = ("q80", 32, 34, 8)
    Q6K = ("q6_k", 256, 210, 14)

    def __init__(self, label: str, block_elements: int, block_bytes: int, ggml_type: int) -> None:
        self.label = label
        self.block_elements = block_elements
        self.block_bytes = block_bytes
        self.ggml_type = ggml_type

    @property
    def is_float(self) -> bool:
        """Whether activations meet this type in f32 rather than in q80 blocks."""
        return self in (FloatType.F32, FloatType.F16, FloatType.BF16)

    def n_bytes(self, n_elements: int) -> int:
        """Bytes of a run of elements that is a whole number of file blocks."""
        blocks, rest = divmod(n_elements, self.block_elements)
        if rest:
            raise ValueError(f"{n_elements} elements are not whole {self.label} blocks of {self.block_elements}")
        return blocks * self.block_bytes

    @classmethod
    def named(cls, label: str) -> "FloatType":
        for kind in cls:
            if kind.label == label:
                return kind
        raise ValueError(f"no float type {label!r}; known: {', '.join(kind.label for kind in cls)}")


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
    blocks = data.reshape(rows, -1, kind.block_bytes)  # [rows, blocks, block_bytes]
    unpack = {
        FloatType.Q40: _dequantize_q40,
        FloatType.Q41: _dequantize_q41,
        FloatType.Q80: _dequantize_q80,
        FloatType.Q6K: _dequantize_q6k,
    }[kind]
    return unpack(blocks).reshape(rows, -1)


def _half(blocks: Bytes, at: int) -> Floats:
    return np.ascontiguousarray(blocks[..., at : at + 2]).view(np.float16).astype(np.float32)  # [rows, blocks, 1]


def _nibbles(packed: Bytes) -> NDArray[np.uint8]:
    return np.concatenate([packed & 15, packed >> 4], axis=-1)


def _dequantize_q40(blocks: Bytes) -> Floats:
    return (_nibbles(blocks[..., 2:]).astype(np.float32) - np.float32(8)) * _half(blocks, 0)


def _dequantize_q41(blocks: Bytes) -> Floats:
    return _nibbles(blocks[..., 4:]).astype(np.float32) * _half(blocks, 0) + _half(blocks, 2)


def _dequantize_q80(blocks: Bytes) -> Floats:
    return blocks[..., 2:].view(np.int8).astype(np.float32) * _half(blocks, 0)


def _dequantize_q6k(blocks: Bytes) -> Floats:
    """128 bytes of low nibbles, 64 of high bit pairs, 16 signed scales of 16 columns each, half scale."""
    scale = blocks[..., 192:208].view(np.int8).astype(np.float32) * _half(blocks, 208)  # [rows, blocks, 16]
    return np.repeat(scale, 16, axis=-1) * codes_q6k(blocks).astype(np.float32)


def codes_q6k(blocks: Bytes) -> NDArray[np.int8]:
    """Q6_K file blocks [..., 210] -> codes -32..31 in column order [..., 256]."""
    parts = []
    for half in range(2):  # 128 columns each
        low = blocks[..., 64 * half : 64 * half + 64]
        high = blocks[..., 128 + 32 * half : 160 + 32 * half]
        for quarter in range(4):  # 32 columns each
            nibble = low[..., 32 * (quarter % 2) : 32 * (quarter % 2) + 32] >> (4 * (quarter // 2)) & 15
            parts.append(nibble | (high >> (2 * quarter) & 3) << 4)
    return np.concatenate(parts, axis=-1).view(np.int8) - np.int8(32)
