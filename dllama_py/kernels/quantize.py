"""Rows of weights from one storage type to another, fast; the bytes are those of `blocks.quantize`.

Halves are handled as integer bits, because numba has no usable float16. Loops are written so that the compiler
turns each block of 32 into vector code: maxima run over integer bits, which need no order, and no branch stands
inside a block. It does not know tensors, files or models.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dllama_py.blocks import BLOCK, Bytes, Floats, FloatType, dequantize
from dllama_py.kernels.elementary import ROUNDER
from dllama_py.kernels.functions import compiled_on_demand

_MAGNITUDE = np.uint32(0x7FFFFFFF)
_INFINITY = np.uint32(0x7F800000)  # magnitude bits from here on are not finite
_NO_INVERSE = np.float32(2.0**-128)
# numba compiles anew for arrays that are read-only or unaligned, as those of files are
_ONE_KIND: tuple[Literal["C", "A", "W"], ...] = ("C", "A", "W")

Words = NDArray[np.uint32]
Halves = NDArray[np.uint16]


def quantize_rows(data: Bytes, source: FloatType, target: FloatType) -> Bytes:
    """uint8 [rows, row_bytes] of any type -> uint8 [rows, row_bytes] of f32, f16, q40 or q80.

    ValueError where a value is not finite or too large for the target. Rows that are to become q40 or q80 must be
    whole blocks of 32.
    """
    values = widen_rows(data, source)  # [rows, columns]
    rows, columns = values.shape
    bits = values.view(np.uint32).reshape(-1)
    if target is FloatType.F32:
        out, sound = values.view(np.uint8), bool(_all_finite(bits))
    elif target is FloatType.F16:
        halves = np.empty((rows, columns), np.uint16)
        out, sound = halves.view(np.uint8), bool(_narrow_f16(bits, halves.reshape(-1)))
    elif target in _TO_BLOCKS:
        out = np.empty((rows, target.n_bytes(columns)), np.uint8)
        sound = _to_blocks(bits, target, out)
    else:
        raise ValueError(f"cannot write {target.label}; f32, f16, q40 and q80 can be written")
    if not sound:
        raise ValueError(f"holds a value that is infinite, not a number, or too large for {target.label}")
    return out


def _to_blocks(bits: Words, target: FloatType, out: Bytes) -> bool:
    blocks = out.reshape(-1, target.block_bytes)
    scales = np.empty(len(blocks), np.float32)
    halves = np.empty((len(blocks), 1), np.uint16)
    finite = _TO_BLOCKS[target](bits, scales, blocks)
    fits = _narrow_f16(scales.view(np.uint32), halves.reshape(-1))
    blocks[:, :2] = halves.view(np.uint8)
    return bool(finite and fits)


def widen_rows(data: Bytes, source: FloatType) -> Floats:
    """uint8 [rows, row_bytes] of any type -> float32 [rows, columns], exactly."""
    if source not in (FloatType.BF16, FloatType.F16):
        return np.require(dequantize(data, source), requirements=_ONE_KIND)
    halves = np.require(np.ascontiguousarray(data).view(np.uint16), requirements=_ONE_KIND)  # [rows, columns]
    bits = np.empty(halves.shape, np.uint32)
    widen = _widen_bf16 if source is FloatType.BF16 else _widen_f16
    widen(halves.reshape(-1), bits.reshape(-1))
    return bits.view(np.float32)


@compiled_on_demand("void(uint16[::1], uint32[::1])")
def _widen_bf16(halves: Halves, bits: Words) -> None:
    for i in range(halves.size):
        bits[i] = np.uint32(halves[i]) << np.uint32(16)


@compiled_on_demand("void(uint16[::1], uint32[::1])")
def _widen_f16(halves: Halves, bits: Words) -> None:
    """Exponent 5 bits wide to 8: shift, then multiply by 2^112, which is exact for subnormals as well."""
    floats = bits.view(np.float32)
    for i in range(halves.size):
        bits[i] = np.uint32(halves[i] & np.uint16(0x7FFF)) << np.uint32(13)
    for i in range(halves.size):
        floats[i] = floats[i] * np.float32(2.0**112)
    for i in range(halves.size):
        half = np.uint32(halves[i])
        special = _INFINITY if (half & np.uint32(0x7C00)) == np.uint32(0x7C00) else np.uint32(0)
        bits[i] = bits[i] | special | (half & np.uint32(0x8000)) << np.uint32(16)


@compiled_on_demand("boolean(uint32[::1])")
def _all_finite(bits: Words) -> np.bool:
    highest = np.uint32(0)
    for i in range(bits.size):
        highest = max(highest, bits[i] & _MAGNITUDE)
    return highest < _INFINITY


@compiled_on_demand("boolean(uint32[::1], uint16[::1])")
def _narrow_f16(bits: Words, halves: Halves) -> np.bool:
    """Bits of float32 to bits of the nearest half, ties to even; whether all are finite."""
    small = bits & _MAGNITUDE
    floats = small.view(np.float32)
    for i in range(bits.size):  # below 2^-14, the smallest normal half, an addition rounds at 2^-24
        floats[i] = floats[i] + np.float32(0.5)
    highest = np.uint32(0)
    for i in range(bits.size):
        magnitude = bits[i] & _MAGNITUDE
        odd = (magnitude >> np.uint32(13)) & np.uint32(1)
        normal = (magnitude - np.uint32(0x38000000) + np.uint32(0xFFF) + odd) >> np.uint32(13)
        subnormal = small[i] - np.uint32(0x3F000000)
        half = subnormal if magnitude < np.uint32(0x38800000) else normal
        half = np.uint32(0x7C00) if magnitude >= np.uint32(0x477FF000) else half  # 65520 and above
        highest = max(highest, half)
        halves[i] = half | (bits[i] >> np.uint32(16) & np.uint32(0x8000))
    return highest < np.uint32(0x7C00)


@compiled_on_demand("boolean(uint32[::1], float32[::1], uint8[:, ::1])")
def _to_q40(bits: Words, scales: Floats, blocks: Bytes) -> np.bool:
    """Scales as float32 [B], codes from the third byte of blocks [B, 18]; whether all values are finite.

    The extreme of a block becomes code 0; a tie of +a and -a goes to the positive one.
    """
    values, scale_bits = bits.view(np.float32), scales.view(np.uint32)
    codes = np.empty(BLOCK, np.uint8)
    highest = np.uint32(0)
    for block in range(scales.size):
        start = block * BLOCK
        largest, signed = np.uint32(0), np.int32(-(2**31))
        for i in range(start, start + BLOCK):
            largest = max(largest, bits[i] & _MAGNITUDE)
            signed = max(signed, np.int32(bits[i]))  # as integers the positive ones are on top
        highest = max(highest, largest)
        scale_bits[block] = largest if np.int32(largest) == signed else largest | np.uint32(0x80000000)
        delta = scales[block] / np.float32(-8)
        scales[block] = delta
        inverse = np.float32(1) / delta if abs(delta) > _NO_INVERSE else np.float32(0)
        for i in range(BLOCK):
            codes[i] = min(np.int32(values[start + i] * inverse + np.float32(8.5)), np.int32(15))
        for i in range(BLOCK // 2):
            blocks[block, 2 + i] = codes[i] | codes[i + BLOCK // 2] << np.uint8(4)
    return highest < _INFINITY


@compiled_on_demand("boolean(uint32[::1], float32[::1], uint8[:, ::1])")
def _to_q80(bits: Words, scales: Floats, blocks: Bytes) -> np.bool:
    """As `_to_q40` with blocks [B, 34]; the extreme becomes 127 or -127, codes are rounded half to even."""
    values, scale_bits, codes = bits.view(np.float32), scales.view(np.uint32), blocks.view(np.int8)
    highest = np.uint32(0)
    for block in range(scales.size):
        start = block * BLOCK
        largest = np.uint32(0)
        for i in range(start, start + BLOCK):
            largest = max(largest, bits[i] & _MAGNITUDE)
        highest = max(highest, largest)
        scale_bits[block] = largest
        delta = scales[block] / np.float32(127)
        scales[block] = delta
        inverse = np.float32(1) / delta if delta > _NO_INVERSE else np.float32(0)
        for i in range(BLOCK):
            codes[block, 2 + i] = np.int8(np.int32((values[start + i] * inverse + ROUNDER) - ROUNDER))
    return highest < _INFINITY


_TO_BLOCKS = {FloatType.Q40: _to_q40, FloatType.Q80: _to_q80}
