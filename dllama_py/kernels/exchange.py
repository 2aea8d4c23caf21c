"""Partial sums on the wire in bf16 and q80: the fast codecs of the tree all-reduce.

They fulfil `transport`'s Codec by the rules of docs/arithmetic.md, "Sums that cross nodes". Values arrive rounded, so
encoding is exact.
"""

from dllama_py.blocks import BLOCK, Bytes, Floats, FloatType
from dllama_py.kernels.compiled import compiled
from dllama_py.kernels.elementary import ROUND_BF16, ROUND_Q80, block_scale, codes_of, store_rounded
from dllama_py.kernels.vectors import (
    add_f32,
    load_bf16,
    load_f32,
    load_i8,
    mul_f32,
    splat_f32,
    store_bf16,
    store_f32,
    store_i8,
    to_f32,
    to_i32,
    widen_half_at,
    write_half,
)

Q80_BYTES = FloatType.Q80.block_bytes  # a half scale, then 32 signed bytes


class Bf16Exchange:
    """Two bytes a value."""

    is_plain = False

    def wire_bytes(self, n_values: int, /) -> int:
        return 2 * n_values

    def encode(self, values: Floats, wire: Bytes, /) -> None:
        _encode_bf16(values.ctypes.data, wire.ctypes.data, values.size)

    def decode(self, wire: Bytes, values: Floats, /) -> None:
        _decode_bf16(wire.ctypes.data, values.ctypes.data, values.size)

    def add(self, values: Floats, received: Bytes, /) -> None:
        _add_bf16(values.ctypes.data, received.ctypes.data, values.size)


class Q80Exchange:
    """34 bytes for 32 values."""

    is_plain = False

    def wire_bytes(self, n_values: int, /) -> int:
        return n_values // BLOCK * Q80_BYTES

    def encode(self, values: Floats, wire: Bytes, /) -> None:
        _encode_q80(values.ctypes.data, wire.ctypes.data, values.size)

    def decode(self, wire: Bytes, values: Floats, /) -> None:
        _decode_q80(wire.ctypes.data, values.ctypes.data, values.size)

    def add(self, values: Floats, received: Bytes, /) -> None:
        _add_q80(values.ctypes.data, received.ctypes.data, values.size)


@compiled("void(intp, intp, intp)")
def _encode_bf16(values: int, wire: int, n: int) -> None:
    for i in range(0, n, 16):
        store_bf16(wire + 2 * i, load_f32(values + 4 * i))


@compiled("void(intp, intp, intp)")
def _decode_bf16(wire: int, values: int, n: int) -> None:
    for i in range(0, n, 16):
        store_f32(values + 4 * i, load_bf16(wire + 2 * i))


@compiled("void(intp, intp, intp)")
def _add_bf16(values: int, wire: int, n: int) -> None:
    for i in range(0, n, BLOCK):
        a = add_f32(load_f32(values + 4 * i), load_bf16(wire + 2 * i))
        b = add_f32(load_f32(values + 4 * i + 64), load_bf16(wire + 2 * i + 32))
        store_rounded(a, b, ROUND_BF16, values + 4 * i)


@compiled("void(intp, intp, intp)")
def _encode_q80(values: int, wire: int, n: int) -> None:
    for block in range(n // BLOCK):
        a, b = load_f32(values + 128 * block), load_f32(values + 128 * block + 64)
        at, scale = wire + Q80_BYTES * block, block_scale(a, b)
        write_half(at, scale)
        store_i8(at + 2, to_i32(codes_of(a, scale)))
        store_i8(at + 18, to_i32(codes_of(b, scale)))


@compiled("void(intp, intp, intp)")
def _decode_q80(wire: int, values: int, n: int) -> None:
    for block in range(n // BLOCK):
        at, scale = wire + Q80_BYTES * block, splat_f32(widen_half_at(wire + Q80_BYTES * block))
        store_f32(values + 128 * block, mul_f32(scale, to_f32(load_i8(at + 2))))
        store_f32(values + 128 * block + 64, mul_f32(scale, to_f32(load_i8(at + 18))))


@compiled("void(intp, intp, intp)")
def _add_q80(values: int, wire: int, n: int) -> None:
    for block in range(n // BLOCK):
        at, scale = wire + Q80_BYTES * block, splat_f32(widen_half_at(wire + Q80_BYTES * block))
        x = values + 128 * block
        a = add_f32(load_f32(x), mul_f32(scale, to_f32(load_i8(at + 2))))
        b = add_f32(load_f32(x + 64), mul_f32(scale, to_f32(load_i8(at + 18))))
        store_rounded(a, b, ROUND_Q80, x)
