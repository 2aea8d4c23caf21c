"""The one operation that each CPU does its own way: four byte products added into an int32 lane, exactly.

`unsigned` takes weight bytes 0..127, `signed` weight bytes -128..127; activations are -127..127. Each CPU has one
implementation, chosen by features at import; all give the same integers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from dllama_py.kernels.codegen import I8, I16, I32, LANES, VI32, call_intrinsic
from dllama_py.kernels.features import FEATURES

Build = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Dot4:
    """`prepare` is applied once to a vector of signed weights; sums then lack `bias` * (sum of activations)."""

    name: str
    unsigned: Build
    prepare: Build
    signed: Build
    bias: int


def _part(builder: Any, v: Any, first: int, count: int) -> Any:
    return builder.shuffle_vector(v, v, ir.Constant(ir.VectorType(I32, count), list(range(first, first + count))))


def _join(builder: Any, parts: list[Any]) -> Any:
    """Concatenates equal vectors pairwise until one of 16 lanes is left."""
    while len(parts) > 1:
        n = 2 * parts[0].type.count
        order = ir.Constant(ir.VectorType(I32, n), list(range(n)))
        parts = [builder.shuffle_vector(parts[i], parts[i + 1], order) for i in range(0, len(parts), 2)]
    return parts[0]


def _itself(builder: Any, weights: Any) -> Any:
    return weights


def _vnni(builder: Any, acc: Any, weights: Any, word: Any) -> Any:
    return call_intrinsic(builder, "llvm.x86.avx512.vpdpbusd.512", VI32, acc, weights, word)


def _offset_by_128(builder: Any, weights: Any) -> Any:
    """Signed byte w -> unsigned w + 128; the surplus 128 * (sum of activations) is taken off by the bias."""
    return builder.xor(weights, ir.Constant(VI32, [-0x7F7F7F80] * LANES))


def _avx2_pairs(builder: Any, acc: Any, unsigned: Any, signed: Any) -> Any:
    """vpmaddubsw + vpmaddwd on 32 bytes; pair sums stay within 16 bits for unsigned bytes up to 128."""
    eight, bytes32, words = ir.VectorType(I32, 8), ir.VectorType(I8, 32), ir.VectorType(I16, 16)
    pairs = call_intrinsic(
        builder,
        "llvm.x86.avx2.pmadd.ub.sw",
        words,
        builder.bitcast(unsigned, bytes32),
        builder.bitcast(signed, bytes32),
    )
    quads = call_intrinsic(builder, "llvm.x86.avx2.pmadd.wd", eight, pairs, ir.Constant(words, [1] * 16))
    return builder.add(acc, quads)


def _avx2(builder: Any, acc: Any, weights: Any, word: Any) -> Any:
    halves = [_avx2_pairs(builder, *(_part(builder, v, f, 8) for v in (acc, weights, word))) for f in (0, 8)]
    return _join(builder, halves)


def _avx2_signed(builder: Any, acc: Any, weights: Any, word: Any) -> Any:
    """|w| as the unsigned operand, its sign moved to the activation."""
    bytes32 = ir.VectorType(I8, 32)
    halves = []
    for first in (0, 8):
        a, w, x = (_part(builder, v, first, 8) for v in (acc, weights, word))
        w8, x8 = builder.bitcast(w, bytes32), builder.bitcast(x, bytes32)
        signed = call_intrinsic(builder, "llvm.x86.avx2.psign.b", bytes32, x8, w8)
        magnitude = call_intrinsic(builder, "llvm.x86.avx2.psign.b", bytes32, w8, w8)
        halves.append(_avx2_pairs(builder, a, magnitude, signed))
    return _join(builder, halves)


def _neon_dotprod(builder: Any, acc: Any, weights: Any, word: Any) -> Any:
    quarter, bytes16 = ir.VectorType(I32, 4), ir.VectorType(I8, 16)
    quarters = []
    for first in (0, 4, 8, 12):
        a, w, x = (_part(builder, v, first, 4) for v in (acc, weights, word))
        w8, x8 = builder.bitcast(w, bytes16), builder.bitcast(x, bytes16)
        quarters.append(call_intrinsic(builder, "llvm.aarch64.neon.sdot.v4i32.v16i8", quarter, a, w8, x8))
    return _join(builder, quarters)


def _bytes_as_words(builder: Any, v: Any) -> tuple[Any, Any]:
    """The even and the odd signed bytes of v, each widened to 16 bits."""
    words = ir.VectorType(I16, 2 * LANES)
    eight = ir.Constant(words, [8] * (2 * LANES))
    v = builder.bitcast(v, words)
    return builder.ashr(builder.shl(v, eight), eight), builder.ashr(v, eight)


def _generic(builder: Any, acc: Any, weights: Any, word: Any) -> Any:
    """Shifts, and products of 16 bits, which SSE2 and NEON have; two of them stay within 128 * 127 * 2 < 2^15."""
    (w_even, w_odd), (x_even, x_odd) = _bytes_as_words(builder, weights), _bytes_as_words(builder, word)
    pairs = builder.bitcast(builder.add(builder.mul(w_even, x_even), builder.mul(w_odd, x_odd)), VI32)
    sixteen = ir.Constant(VI32, [16] * LANES)
    first = builder.ashr(builder.shl(pairs, sixteen), sixteen)
    return builder.add(acc, builder.add(first, builder.ashr(pairs, sixteen)))


def _choose() -> Dot4:
    if {"avx512vnni", "avx512f"} <= FEATURES:
        return Dot4("AVX-512 VNNI", _vnni, _offset_by_128, _vnni, bias=-128)
    if "avx2" in FEATURES:
        return Dot4("AVX2", _avx2, _itself, _avx2_signed, bias=0)
    if "dotprod" in FEATURES:
        return Dot4("NEON dotprod", _neon_dotprod, _itself, _neon_dotprod, bias=0)
    return Dot4("generic", _generic, _itself, _generic, bias=0)


DOT4 = _choose()
