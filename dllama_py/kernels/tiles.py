"""Tiles: one vector (or address) for each of `height` rows of activations.

A kernel is written once over tiles and compiled for the heights that its caller names; whatever the height, a row goes
through the same operations in the same order. Heights are Constants.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.datamodel import register_default
from numba.extending import intrinsic

from dllama_py.kernels.codegen import FLOAT, I32, I64, VF32, VI32, fused, load, splat, store
from dllama_py.kernels.dot4 import DOT4
from dllama_py.kernels.vectors import VectorModel, f32x16, i32x16

SIGNED_BIAS = DOT4.bias
_address = types.intp


class TileType(types.Type):
    """`height` values of one kind, unrolled by the compiler."""

    def __init__(self, name: str, element: Any, height: int) -> None:
        self.height = height
        self.llvm_type = ir.ArrayType(element, height)
        super().__init__(name=f"Tile({name} x {height})")


register_default(TileType)(VectorModel)


def tile_i32(height: int) -> TileType:
    return TileType("i32x16", VI32, height)


def tile_f32(height: int) -> TileType:
    return TileType("f32x16", VF32, height)


def tile_address(height: int) -> TileType:
    return TileType("address", I64, height)


def rows_of(builder: Any, height: int, llvm_type: Any, make: Callable[[int], Any]) -> Any:
    """A tile of `make(m)` for every row m."""
    tile = ir.Constant(ir.ArrayType(llvm_type, height), ir.Undefined)
    for m in range(height):
        tile = builder.insert_value(tile, make(m), m)
    return tile


def _entry(builder: Any, m: int, last: Any) -> Any:
    """min(m, last): a tile that is not full repeats its last row."""
    return builder.select(builder.icmp_signed("<", I64(m), last), I64(m), last)


def load_at(builder: Any, addresses: Any, m: int, offset: Any, llvm_type: Any) -> Any:
    """What lies `offset` behind row m's address."""
    return load(builder, builder.add(builder.extract_value(addresses, m), offset), llvm_type)


def _zeros(tile_type: Callable[[int], TileType], height_of: Callable[[Any], int], name: str) -> Any:
    """An intrinsic that makes a tile of zeros; `height_of` finds its height in the type of the argument."""

    def rows_zero(typingctx: Any, like: Any) -> Any:
        tile = tile_type(height_of(like))

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return ir.Constant(tile.llvm_type, None)

        return tile(like), codegen

    rows_zero.__name__ = name
    return intrinsic(rows_zero)


rows_zero_f32 = _zeros(tile_f32, attrgetter("number"), "rows_zero_f32")
"""rows_zero_f32(height): float32, of a height given as a Constant."""
rows_zero_like = _zeros(tile_f32, attrgetter("height"), "rows_zero_like")
"""rows_zero_like(tile): float32, as high as the tile."""


@intrinsic
def row_addresses(typingctx: Any, like: Any, base: Any, stride: Any, numbers: Any, last: Any) -> Any:
    """Addresses base + stride * number[m], numbers an int64 list; from entry `last` on it repeats."""
    n = like.height

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, base, stride, numbers, last = args

        def make(m: int) -> Any:
            entry = builder.mul(_entry(builder, m, last), I64(8))
            number = load(builder, builder.add(numbers, entry), I64)
            return builder.add(base, builder.mul(number, stride))

        return rows_of(builder, n, I64, make)

    return tile_address(n)(like, _address, _address, _address, _address), codegen


def _define_dot4(name: str, prepare: Callable[[Any, Any], Any]) -> Any:
    """The intrinsic for weight bytes of which `prepare` makes what DOT4.signed takes."""

    def rows_dot4(typingctx: Any, acc: Any, weights: Any, addresses: Any, offset: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            acc, weights, addresses, offset = args
            prepared = prepare(builder, weights)

            def make(m: int) -> Any:
                word = splat(builder, load_at(builder, addresses, m, offset, I32))
                return DOT4.signed(builder, builder.extract_value(acc, m), prepared, word)

            return rows_of(builder, signature.args[0].height, VI32, make)

        return acc(acc, i32x16, addresses, _address), codegen

    rows_dot4.__name__ = name
    return intrinsic(rows_dot4)


rows_dot4_signed = _define_dot4("rows_dot4_signed", DOT4.prepare)
"""acc[m] += dot4(weights, the 4 signed bytes at addresses[m] + offset), weight bytes signed.

acc must have started at SIGNED_BIAS * (sum of the activations).
"""
rows_dot4_prepared = _define_dot4("rows_dot4_prepared", lambda builder, weights: weights)
"""The same for weight bytes that are prepared already."""


def _splat_sums(name: str, count: int) -> Any:
    """The intrinsic for `count` int32 one behind the other."""

    def rows_splat(typingctx: Any, factor: Any, addresses: Any, offset: Any) -> Any:
        tile = tile_i32(addresses.height)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            factor, addresses, offset = args

            def make(m: int) -> Any:
                total = load_at(builder, addresses, m, offset, I32)
                for i in range(1, count):
                    total = builder.add(total, load_at(builder, addresses, m, builder.add(offset, I64(4 * i)), I32))
                return splat(builder, builder.mul(factor, total))

            return rows_of(builder, tile.height, VI32, make)

        return tile(types.int32, addresses, _address), codegen

    rows_splat.__name__ = name
    return intrinsic(rows_splat)


rows_splat_scaled = _splat_sums("rows_splat_scaled", 1)
"""rows_splat_scaled(factor, addresses, offset): factor * (the int32 at addresses[m] + offset) in all lanes of row m."""
rows_splat_scaled_pair = _splat_sums("rows_splat_scaled_pair", 2)
"""The same of the sum of two int32, at the offset and behind it."""


@intrinsic
def rows_add_scaled(typingctx: Any, total: Any, scale: Any, addresses: Any, offset: Any, isum: Any) -> Any:
    """total[m] = fma(scale * (float at addresses[m] + offset), float(isum[m]), total[m]); sums int32 or float32."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        total, scale, addresses, offset, isum = args

        def make(m: int) -> Any:
            factor = builder.fmul(scale, splat(builder, load_at(builder, addresses, m, offset, FLOAT)))
            value = builder.extract_value(isum, m)
            if value.type == VI32:
                value = builder.sitofp(value, VF32)
            return fused(builder, factor, value, builder.extract_value(total, m))

        return rows_of(builder, signature.args[0].height, VF32, make)

    return total(total, f32x16, addresses, _address, isum), codegen


@intrinsic
def rows_fma(typingctx: Any, total: Any, vector: Any, tile: Any) -> Any:
    """total[m] = fma(vector, tile[m], total[m]), float32."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        total, vector, tile = args

        def make(m: int) -> Any:
            return fused(builder, vector, builder.extract_value(tile, m), builder.extract_value(total, m))

        return rows_of(builder, signature.args[0].height, VF32, make)

    return total(total, f32x16, tile), codegen


@intrinsic
def rows_weighted_sum(typingctx: Any, a: Any, first: Any, b: Any, last: Any) -> Any:
    """float32 tile: a * first[m] + b * last[m] of float32 vectors with int32 tiles; exact while all is below 2^24."""
    height = first.height

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, first, b, last = args

        def make(m: int) -> Any:
            x, y = (builder.sitofp(builder.extract_value(tile, m), VF32) for tile in (first, last))
            return fused(builder, b, y, builder.fmul(a, x))

        return rows_of(builder, height, VF32, make)

    return tile_f32(height)(f32x16, first, f32x16, last), codegen


@intrinsic
def rows_scale_at(typingctx: Any, tile: Any, addresses: Any, offset: Any) -> Any:
    """float32 tile: tile[m] * (the float at addresses[m] + offset)."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        tile, addresses, offset = args

        def make(m: int) -> Any:
            factor = splat(builder, load_at(builder, addresses, m, offset, FLOAT))
            return builder.fmul(builder.extract_value(tile, m), factor)

        return rows_of(builder, signature.args[0].height, VF32, make)

    return tile(tile, addresses, _address), codegen


@intrinsic
def rows_fma_at(typingctx: Any, acc: Any, vector: Any, addresses: Any, offset: Any) -> Any:
    """acc[m] = fma(vector, the float at addresses[m] + offset, acc[m])."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        acc, vector, addresses, offset = args

        def make(m: int) -> Any:
            factor = splat(builder, load_at(builder, addresses, m, offset, FLOAT))
            return fused(builder, vector, factor, builder.extract_value(acc, m))

        return rows_of(builder, signature.args[0].height, VF32, make)

    return acc(acc, f32x16, addresses, _address), codegen


@intrinsic
def rows_add_f32(typingctx: Any, a: Any, b: Any) -> Any:
    """a[m] + b[m]."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b = args

        def make(m: int) -> Any:
            return builder.fadd(builder.extract_value(a, m), builder.extract_value(b, m))

        return rows_of(builder, signature.args[0].height, VF32, make)

    return a(a, b), codegen


@intrinsic
def rows_store(typingctx: Any, addresses: Any, offset: Any, tile: Any) -> Any:
    """Row m to addresses[m] + offset, 16 floats."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        addresses, offset, tile = args
        for m in range(signature.args[0].height):
            store(builder, builder.add(builder.extract_value(addresses, m), offset), builder.extract_value(tile, m))
        return context.get_dummy_value()

    return types.void(addresses, _address, tile), codegen


@intrinsic
def rows_weigh(typingctx: Any, addresses: Any, offset: Any, factors: Any, last: Any, tile: Any) -> Any:
    """16 floats at addresses[m] + offset become fma(factor[m], tile[m], themselves).

    `factors` is the address of float32 factors, `last` the number of the last one: rows beyond repeat it. All are
    read before any is written, so that a row repeated to fill a tile is counted once.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        addresses, offset, factors, last, tile = args
        rows = range(signature.args[0].height)
        targets = [builder.add(builder.extract_value(addresses, m), offset) for m in rows]
        sums = [load(builder, target, VF32) for target in targets]
        entries = [_entry(builder, m, last) for m in rows]
        weights = [load(builder, builder.add(factors, builder.mul(e, I64(4))), FLOAT) for e in entries]
        for m in rows:
            value = fused(builder, splat(builder, weights[m]), builder.extract_value(tile, m), sums[m])
            store(builder, targets[m], value)
        return context.get_dummy_value()

    return types.void(addresses, _address, _address, _address, tile), codegen
