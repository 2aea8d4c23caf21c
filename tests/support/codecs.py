"""How partial sums look on the wire: the definition, in plain numpy, of what `kernels/exchange.py` must give.

The rules are in docs/arithmetic.md, "Sums that cross nodes".
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dllama_py.blocks import BLOCK, Bytes, Floats, FloatType, widen_bf16

SMALLEST_NORMAL = np.float32(2.0**-126)
LARGEST_HALF = np.float32(65504)


class Codec(Protocol):
    """Values are float32 [n], whole blocks, rounded to the format already; the wire is uint8 [wire_bytes(n)]."""

    def wire_bytes(self, n_values: int, /) -> int: ...

    def encode(self, values: Floats, wire: Bytes, /) -> None: ...

    def decode(self, wire: Bytes, values: Floats, /) -> None: ...

    def add(self, values: Floats, received: Bytes, /) -> None:
        """values = round(values + decoded received)."""


class PlainCodec:
    """float32 as it is."""

    def wire_bytes(self, n_values: int, /) -> int:
        return 4 * n_values

    def encode(self, values: Floats, wire: Bytes, /) -> None:
        wire[...] = values.view(np.uint8)

    def decode(self, wire: Bytes, values: Floats, /) -> None:
        values[...] = wire.view(np.float32)

    def add(self, values: Floats, received: Bytes, /) -> None:
        values += received.view(np.float32)


class Bf16Codec:
    """The upper half of a float32, rounded to nearest even."""

    def wire_bytes(self, n_values: int, /) -> int:
        return 2 * n_values

    def encode(self, values: Floats, wire: Bytes, /) -> None:
        wire.view(np.uint16)[...] = values.view(np.uint32) >> 16

    def decode(self, wire: Bytes, values: Floats, /) -> None:
        values[...] = widen_bf16(wire.view(np.uint16))

    def add(self, values: Floats, received: Bytes, /) -> None:
        values[...] = round_bf16(values + widen_bf16(received.view(np.uint16)))


class Q80Codec:
    """Blocks of 32 with a half scale, the layout of ggml's Q8_0."""

    def wire_bytes(self, n_values: int, /) -> int:
        return n_values // BLOCK * FloatType.Q80.block_bytes

    def encode(self, values: Floats, wire: Bytes, /) -> None:
        scale, codes = _quantize_q80(values)
        blocks = wire.reshape(-1, FloatType.Q80.block_bytes)
        blocks[:, :2] = scale[:, None].view(np.uint8)
        blocks[:, 2:] = codes.view(np.uint8)

    def decode(self, wire: Bytes, values: Floats, /) -> None:
        blocks = wire.reshape(-1, FloatType.Q80.block_bytes)
        scale = np.ascontiguousarray(blocks[:, :2]).view(np.float16).astype(np.float32)  # [B, 1]
        values.reshape(-1, BLOCK)[...] = scale * blocks[:, 2:].view(np.int8)

    def add(self, values: Floats, received: Bytes, /) -> None:
        other = np.empty_like(values)
        self.decode(received, other)
        values[...] = round_q80(values + other)


CODECS: dict[str, Codec] = {"f32": PlainCodec(), "bf16": Bf16Codec(), "q80": Q80Codec()}


def round_bf16(values: Floats) -> Floats:
    """Nearest bf16 number, ties to even, as float32."""
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def round_q80(values: Floats) -> Floats:
    """float32 [n] -> the values that q80 blocks of them stand for, half(d) * q."""
    scale, codes = _quantize_q80(values)
    return (scale.astype(np.float32)[:, None] * codes).reshape(values.shape)


def _quantize_q80(values: Floats) -> tuple[NDArray[np.float16], NDArray[np.int8]]:
    """-> scale float16 [B], codes int8 [B, 32]; a block whose scale, or half of it, vanishes is all zero."""
    blocks = values.reshape(-1, BLOCK)
    d = np.abs(blocks).max(axis=1) / np.float32(127)
    half = np.minimum(d, LARGEST_HALF).astype(np.float16)
    live = (d >= SMALLEST_NORMAL) & (half != 0)
    inverse = np.divide(np.float32(1), d, out=np.zeros_like(d), where=live)
    half[~live] = 0
    return half, np.rint(blocks * inverse[:, None]).astype(np.int8)
