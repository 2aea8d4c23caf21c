"""Blocks decoded once for many rows of activations, for types whose decoding takes longer than the products of a tile.

`decode_block(kind, header, weights, out)` writes a packed block as DECODED_BYTES at `out`: 8 vectors of bytes as
DOT4.signed takes them, vector j columns 4j.., then float32 vectors: the scale, and where 16 columns have scales of
their own, those of the first 16 and of the last. `add_decoded(kind, total, decoded, x, b)` is then add_block's equal.
`kind` is a Constant, as in weight_blocks.py.
"""

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from dllama_py.float_types import FloatType
from dllama_py.kernels.codebook_steps import (
    BIAS,
    EIGHTH,
    NONE,
    QUARTER,
    both_scales,
    factor,
    iq1s_scales,
    iq2xs_high_bits,
    iq2xxs_scales,
    iq3s_scales,
    iq3xxs_scales,
)
from dllama_py.kernels.codegen import I8, I64, VF32, load, stack_room, store
from dllama_py.kernels.codeword_products import (
    decode_iq1,
    decode_iq2s,
    decode_iq2xs,
    decode_iq2xxs,
    decode_iq3s,
    decode_iq3xxs,
)
from dllama_py.kernels.layout import X_BLOCK_BYTES, X_SCALE, X_SUM_FIRST, X_SUM_LAST
from dllama_py.kernels.subroutines import OPTIONS, njit
from dllama_py.kernels.tiles import (
    rows_add_scaled,
    rows_dot4_prepared,
    rows_of,
    rows_splat_scaled,
    rows_splat_scaled_pair,
    rows_weighted_sum,
    tile_f32,
)
from dllama_py.kernels.vectors import (
    load_f16,
    load_f32,
    load_i32,
    load_u8,
    load_u16,
    mul_f32,
    splat_f32,
    splat_i32,
    store_f32,
    to_f32,
    twice_plus_one,
)

ROWS, SUM_BYTES = 64, 64  # of a panel; of 16 totals
BLOCKS = 8  # decoded at once at most: a super-block
CODES_BYTES = 8 * 64
DECODED_BYTES = CODES_BYTES + 3 * 64
PANEL_BYTES = ROWS * SUM_BYTES + BLOCKS * DECODED_BYTES


@intrinsic
def stack_memory(typingctx: Any, size: Any) -> Any:
    """The address of so many bytes, a Constant, that this call of the kernel has for itself."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return stack_room(builder, ir.ArrayType(I8, size.number), 64)

    return types.intp(size), codegen


@intrinsic
def rows_load(typingctx: Any, like: Any, address: Any) -> Any:
    """float32 tile, as high as `like`: row m from address + 64 * m."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, address = args
        return rows_of(builder, like.height, VF32, lambda m: load(builder, builder.add(address, I64(64 * m)), VF32))

    return tile_f32(like.height)(like, types.intp), codegen


@intrinsic
def rows_keep(typingctx: Any, address: Any, tile: Any) -> Any:
    """Row m to address + 64 * m, for rows_load."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address, tile = args
        for m in range(signature.args[1].height):
            store(builder, builder.add(address, I64(64 * m)), builder.extract_value(tile, m))
        return context.get_dummy_value()

    return types.void(types.intp, tile), codegen


def _decode_iq2xxs(kind, header, weights, out):
    decode_iq2xxs(weights, splat_i32(NONE), out)
    store_f32(out + CODES_BYTES, factor(header, EIGHTH, iq2xxs_scales(header, weights)))


def _decode_iq2xs(kind, header, weights, out):
    decode_iq2xs(weights, iq2xs_high_bits(header, weights), out)
    put_scales(out + CODES_BYTES, header, weights)


def _decode_iq2s(kind, header, weights, out):
    decode_iq2s(weights, load_u8(weights + 144), out)
    put_scales(out + CODES_BYTES, header, weights + 128)


def _decode_iq3xxs(kind, header, weights, out):
    decode_iq3xxs(weights, splat_i32(NONE), out)
    store_f32(out + CODES_BYTES, factor(header, QUARTER, iq3xxs_scales(header, weights)))


def _decode_iq3s(kind, header, weights, out):
    decode_iq3s(weights, load_u8(weights), out)
    store_f32(out + CODES_BYTES, mul_f32(load_f16(header), to_f32(twice_plus_one(iq3s_scales(header, weights)))))


def _decode_iq1s(kind, header, weights, out):
    decode_iq1(weights + 32, load_u16(weights), out)
    store_f32(out + CODES_BYTES, factor(header, EIGHTH, iq1s_scales(header, weights)))


def _decode_iq1m(kind, header, weights, out):
    decode_iq1(weights + 32, load_u16(weights), out)
    put_scales(out + CODES_BYTES, header, weights + 96)


@njit(forceinline=True, error_model="numpy")
def put_scales(out: int, header: int, nibbles: int) -> None:
    """That of the super-block, and those of columns 0..15 and 16..31."""
    of_first, of_last = both_scales(nibbles)
    store_f32(out, mul_f32(load_f16(header), splat_f32(EIGHTH)))
    store_f32(out + 64, of_first)
    store_f32(out + 128, of_last)


_DECODE: dict[int, Callable[..., Any]] = {
    FloatType.IQ2XXS.ggml_type: _decode_iq2xxs,
    FloatType.IQ2XS.ggml_type: _decode_iq2xs,
    FloatType.IQ2S.ggml_type: _decode_iq2s,
    FloatType.IQ3XXS.ggml_type: _decode_iq3xxs,
    FloatType.IQ3S.ggml_type: _decode_iq3s,
    FloatType.IQ1S.ggml_type: _decode_iq1s,
    FloatType.IQ1M.ggml_type: _decode_iq1m,
}
IS_DECODED = frozenset(_DECODE)
"""Numbers of ggml's types."""
_HALVES = {kind.ggml_type for kind in (FloatType.IQ2XS, FloatType.IQ2S, FloatType.IQ1M)}


def _add_whole(kind, total, decoded, x, b):
    at = b * X_BLOCK_BYTES
    isum = rows_splat_scaled_pair(BIAS, x, at + X_SUM_FIRST)
    for j in range(8):
        isum = rows_dot4_prepared(isum, load_i32(decoded + 64 * j), x, at + 4 * j)
    return rows_add_scaled(total, load_f32(decoded + CODES_BYTES), x, at + X_SCALE, isum)


def _add_halves(kind, total, decoded, x, b):
    at = b * X_BLOCK_BYTES
    first = rows_splat_scaled(BIAS, x, at + X_SUM_FIRST)
    last = rows_splat_scaled(BIAS, x, at + X_SUM_LAST)
    for j in range(4):
        first = rows_dot4_prepared(first, load_i32(decoded + 64 * j), x, at + 4 * j)
        last = rows_dot4_prepared(last, load_i32(decoded + 256 + 64 * j), x, at + 16 + 4 * j)
    scales = decoded + CODES_BYTES
    isum = rows_weighted_sum(load_f32(scales + 64), first, load_f32(scales + 128), last)
    return rows_add_scaled(total, load_f32(scales), x, at + X_SCALE, isum)


def decode_block(kind, header, weights, out):
    """Only inside compiled code; see the module's docstring."""
    raise RuntimeError("decode_block runs in compiled code only")


@overload(decode_block, jit_options={"forceinline": True, "error_model": "numpy"} | OPTIONS)
def _choose_decode(kind, header, weights, out):
    return _DECODE[kind.number]


def add_decoded(kind, total, decoded, x, b):
    """Only inside compiled code; see the module's docstring."""
    raise RuntimeError("add_decoded runs in compiled code only")


@overload(add_decoded, jit_options={"forceinline": True, "error_model": "numpy"} | OPTIONS)
def _choose_add(kind, total, decoded, x, b):
    return _add_halves if kind.number in _HALVES else _add_whole
