"""The one operation that each CPU does its own way: four byte products added into an int32 lane, exactly.

`unsigned` takes weight bytes 0..127, `signed` weight bytes -128..127; all lanes of the activations hold the same four
bytes, -127..127. Each CPU has one implementation, chosen by features at import; all give the same integers.
docs/decisions/0008 has what a block costs on each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from llvmlite import ir

from dllama_py.kernels.codegen import I8, I16, I32, LANES, VI32, call_intrinsic
from dllama_py.kernels.features import FEATURES, IS_ARM

Build = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Dot4:
    """`prepare` is applied once to a vector of signed weights; sums then lack `bias` * (sum of activations).

    `small` takes several vectors of weight bytes 0..`largest` and as many of activations. Sums of `tallest` rows fit
    registers.
    """

    name: str
    unsigned: Build
    prepare: Build
    signed: Build
    bias: int
    small: Build
    tallest: int


def _part(builder: Any, v: Any, first: int, count: int) -> Any:
    return builder.shuffle_vector(v, v, ir.Constant(ir.VectorType(I32, count), list(range(first, first + count))))


def _join(builder: Any, parts: list[Any]) -> Any:
    """Concatenates equal vectors pairwise until one of 16 lanes is left."""
    while len(parts) > 1:
        n = 2 * parts[0].type.count
        order = ir.Constant(ir.VectorType(I32, n), list(range(n)))
        parts = [builder.shuffle_vector(parts[i], parts[i + 1], order) for i in range(0, len(parts), 2)]
    return parts[0]


def _by_parts(builder: Any, count: int, operands: tuple[Any, ...], build: Build) -> Any:
    """`build(builder, *parts)` for registers of `count` lanes, joined to 16."""
    firsts = range(0, LANES, count)
    return _join(builder, [build(builder, *(_part(builder, v, first, count) for v in operands)) for first in firsts])


def _itself(builder: Any, weights: Any) -> Any:
    return weights


def _vnni(builder: Any, acc: Any, weights: Any, word: Any) -> Any:
    return call_intrinsic(builder, "llvm.x86.avx512.vpdpbusd.512", VI32, acc, weights, word)


def _offset_by_128(builder: Any, weights: Any) -> Any:
    """Signed byte w -> unsigned w + 128; the surplus 128 * (sum of activations) is taken off by the bias."""
    return builder.xor(weights, ir.Constant(VI32, [-0x7F7F7F80] * LANES))


def _vnni_256(builder: Any, acc: Any, weights: Any, word: Any) -> Any:
    """The same on registers of 256 bits: AVX-VNNI, or AVX-512 VNNI's form of that length."""
    eight, name = ir.VectorType(I32, 8), "llvm.x86.avx512.vpdpbusd.256"
    return _by_parts(builder, 8, (acc, weights, word), lambda b, *parts: call_intrinsic(b, name, eight, *parts))


def _avx2_pairs(builder: Any, acc: Any, unsigned: Any, signed: Any) -> Any:
    """vpmaddubsw + vpmaddwd on 32 bytes; pair sums stay within 16 bits for unsigned bytes up to 128."""
    eight, bytes32, words = ir.VectorType(I32, 8), ir.VectorType(I8, 32), ir.VectorType(I16, 16)
    u, s = builder.bitcast(unsigned, bytes32), builder.bitcast(signed, bytes32)
    pairs = call_intrinsic(builder, "llvm.x86.avx2.pmadd.ub.sw", words, u, s)
    quads = call_intrinsic(builder, "llvm.x86.avx2.pmadd.wd", eight, pairs, ir.Constant(words, [1] * 16))
    return builder.add(acc, quads)


def _avx2_signed_pairs(builder: Any, acc: Any, weights: Any, word: Any) -> Any:
    """|w| as the unsigned operand, its sign moved to the activation."""
    bytes32 = ir.VectorType(I8, 32)
    w, x = builder.bitcast(weights, bytes32), builder.bitcast(word, bytes32)
    signed = call_intrinsic(builder, "llvm.x86.avx2.psign.b", bytes32, x, w)
    magnitude = call_intrinsic(builder, "llvm.x86.avx2.psign.b", bytes32, w, w)
    return _avx2_pairs(builder, acc, magnitude, signed)


def _avx2(builder: Any, acc: Any, weights: Any, word: Any) -> Any:
    return _by_parts(builder, 8, (acc, weights, word), _avx2_pairs)


def _avx2_signed(builder: Any, acc: Any, weights: Any, word: Any) -> Any:
    return _by_parts(builder, 8, (acc, weights, word), _avx2_signed_pairs)


def _sdot(builder: Any, acc: Any, weights: Any, word: Any) -> Any:
    quarter, bytes16 = ir.VectorType(I32, 4), ir.VectorType(I8, 16)
    w, x = builder.bitcast(weights, bytes16), builder.bitcast(word, bytes16)
    return call_intrinsic(builder, "llvm.aarch64.neon.sdot.v4i32.v16i8", quarter, acc, w, x)


def _neon_dotprod(builder: Any, acc: Any, weights: Any, word: Any) -> Any:
    return _by_parts(builder, 4, (acc, weights, word), _sdot)


def _hide(builder: Any, v: Any) -> Any:
    """The same four lanes, of which LLVM knows no longer that they are equal."""
    return builder.asm(ir.FunctionType(v.type, [v.type]), "", "=w,0", [v], False)


def _smull_sadalp(builder: Any, acc: Any, weights: Any, word: Any) -> Any:
    """smull, smull2, addp, sadalp on 16 bytes; two products stay within 128 * 127 * 2 < 2^15."""
    quarter, bytes16, eight = ir.VectorType(I32, 4), ir.VectorType(I8, 16), ir.VectorType(I16, 8)
    w, x = builder.bitcast(weights, bytes16), builder.bitcast(word, bytes16)
    products = []
    for first in (0, 8):
        halves = [_part(builder, v, first, 8) for v in (w, x)]
        products.append(call_intrinsic(builder, "llvm.aarch64.neon.smull.v8i16", eight, *halves))
    pairs = call_intrinsic(builder, "llvm.aarch64.neon.addp.v8i16", eight, *products)
    return builder.add(acc, call_intrinsic(builder, "llvm.aarch64.neon.saddlp.v4i32.v8i16", quarter, pairs))


def _in_steps(unsigned: Build) -> Build:
    """Small codes as any other weight bytes."""

    def build(builder: Any, acc: Any, weights: list[Any], words: list[Any], largest: int) -> Any:
        for w, x in zip(weights, words, strict=True):
            acc = unsigned(builder, acc, w, x)
        return acc

    return build


def _in_words(sum_of: Build) -> Build:
    """As many steps at once as sums of pairs of products fit 16 bits: 8 of nibbles, 4 of 5 bits, 2 of 6, 1 of 7."""

    def build(builder: Any, acc: Any, weights: list[Any], words: list[Any], largest: int) -> Any:
        count = 0x7FFF // (2 * largest * 127)
        for first in range(0, len(weights), count):
            acc = sum_of(builder, acc, weights[first : first + count], words[first : first + count])
        return acc

    return build


def _avx2_small(builder: Any, acc: Any, weights: list[Any], words: list[Any]) -> Any:
    """vpmaddubsw, added up, then one vpmaddwd."""
    eight, bytes32, i16 = ir.VectorType(I32, 8), ir.VectorType(I8, 32), ir.VectorType(I16, 16)
    halves = []
    for first in (0, 8):
        pairs = None
        for w, x in zip(weights, words, strict=True):
            u, s = (builder.bitcast(_part(builder, v, first, 8), bytes32) for v in (w, x))
            two = call_intrinsic(builder, "llvm.x86.avx2.pmadd.ub.sw", i16, u, s)
            pairs = two if pairs is None else builder.add(pairs, two)
        quads = call_intrinsic(builder, "llvm.x86.avx2.pmadd.wd", eight, pairs, ir.Constant(i16, [1] * 16))
        halves.append(builder.add(_part(builder, acc, first, 8), quads))
    return _join(builder, halves)


def _neon_small(builder: Any, acc: Any, weights: list[Any], words: list[Any]) -> Any:
    """smlal, smlal2: a lane of 16 bits sums a product of each vector, addp two lanes."""
    quarter, bytes16, eight = ir.VectorType(I32, 4), ir.VectorType(I8, 16), ir.VectorType(I16, 8)
    hidden = [_hide(builder, _part(builder, x, 0, 4)) for x in words]
    quarters = []
    for first in (0, 4, 8, 12):
        sums = [ir.Constant(eight, None)] * 2
        for w, x in zip(weights, hidden, strict=True):
            w8, x8 = builder.bitcast(_part(builder, w, first, 4), bytes16), builder.bitcast(x, bytes16)
            for half in (0, 1):
                parts = [_part(builder, v, 8 * half, 8) for v in (w8, x8)]
                product = call_intrinsic(builder, "llvm.aarch64.neon.smull.v8i16", eight, *parts)
                sums[half] = builder.add(sums[half], product)
        pairs = call_intrinsic(builder, "llvm.aarch64.neon.addp.v8i16", eight, *sums)
        quads = call_intrinsic(builder, "llvm.aarch64.neon.saddlp.v4i32.v8i16", quarter, pairs)
        quarters.append(builder.add(_part(builder, acc, first, 4), quads))
    return _join(builder, quarters)


def _neon(builder: Any, acc: Any, weights: Any, word: Any) -> Any:
    """The empty assembly hides from LLVM that all parts of `word` are equal; else it moves halves instead of smull2."""
    x = _hide(builder, _part(builder, word, 0, 4))
    return _by_parts(builder, 4, (acc, weights), lambda b, a, w: _smull_sadalp(b, a, w, x))


def _bytes_as_words(builder: Any, v: Any) -> tuple[Any, Any]:
    """The even and the odd signed bytes of v, each widened to 16 bits."""
    words = ir.VectorType(I16, 2 * LANES)
    eight = ir.Constant(words, [8] * (2 * LANES))
    v = builder.bitcast(v, words)
    return builder.ashr(builder.shl(v, eight), eight), builder.ashr(v, eight)


def _generic(builder: Any, acc: Any, weights: Any, word: Any) -> Any:
    """Shifts, and products of 16 bits, which SSE2 has; two of them stay within 128 * 127 * 2 < 2^15."""
    (w_even, w_odd), (x_even, x_odd) = _bytes_as_words(builder, weights), _bytes_as_words(builder, word)
    pairs = builder.bitcast(builder.add(builder.mul(w_even, x_even), builder.mul(w_odd, x_odd)), VI32)
    sixteen = ir.Constant(VI32, [16] * LANES)
    first = builder.ashr(builder.shl(pairs, sixteen), sixteen)
    return builder.add(acc, builder.add(first, builder.ashr(pairs, sixteen)))


def _choose() -> Dot4:
    if {"avx512vnni", "avx512f"} <= FEATURES:
        return Dot4("AVX-512 VNNI", _vnni, _offset_by_128, _vnni, bias=-128, small=_in_steps(_vnni), tallest=8)
    if "avxvnni" in FEATURES or {"avx512vnni", "avx512vl"} <= FEATURES:
        return Dot4("AVX-VNNI", _vnni_256, _offset_by_128, _vnni_256, bias=-128, small=_in_steps(_vnni_256), tallest=4)
    if "avx2" in FEATURES:
        return Dot4("AVX2", _avx2, _itself, _avx2_signed, bias=0, small=_in_words(_avx2_small), tallest=8)
    if "dotprod" in FEATURES:
        return Dot4(
            "NEON dotprod", _neon_dotprod, _itself, _neon_dotprod, bias=0, small=_in_steps(_neon_dotprod), tallest=4
        )
    if IS_ARM:
        return Dot4("NEON", _neon, _itself, _neon, bias=0, small=_in_words(_neon_small), tallest=4)
    return Dot4("generic", _generic, _itself, _generic, bias=0, small=_in_steps(_generic), tallest=8)


DOT4 = _choose()
