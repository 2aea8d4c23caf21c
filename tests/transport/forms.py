"""Forms in which partial sums could travel, in plain numpy; exchange_forms.py measures what they cost.

A form takes float32 [T, D] and gives what would arrive, rounded to the form.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dllama_py.blocks import Floats

Form = Callable[[Floats], Floats]


def half(x: Floats) -> Floats:
    return np.minimum(x, np.float32(65504)).astype(np.float16).astype(np.float32)


def scaled(blocks: Floats, scale: Floats) -> Floats:
    """Codes -127..127 of the un-rounded scale, times the half scale, as q80 does."""
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    return np.clip(np.rint(blocks * inverse), -127, 127) * half(scale)


def by_largest(size: int, codes: float = 127) -> Form:
    """Symmetric, scale = amax / codes, in blocks of `size`."""

    def form(x: Floats) -> Floats:
        blocks = x.reshape(-1, size)
        return scaled(blocks, np.abs(blocks).max(axis=1, keepdims=True) / np.float32(codes)).reshape(x.shape)

    return form


def half_first(x: Floats) -> Floats:
    """As q80, but the codes are made with the half scale, rounded so that none exceeds 127."""
    blocks = x.reshape(-1, 32)
    scale = half(np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127))
    return scaled(blocks, scale).reshape(x.shape)


def least_squares(x: Floats) -> Floats:
    """The best of nine scales from 0.9 amax / 127 on, then the scale refitted to the codes."""
    blocks = x.reshape(-1, 32)
    top = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    best, least = scaled(blocks, top), np.square(scaled(blocks, top) - blocks).sum(axis=1, keepdims=True)
    for factor in np.linspace(0.9, 1.02, 9, dtype=np.float32):
        tried = scaled(blocks, factor * top)
        error = np.square(tried - blocks).sum(axis=1, keepdims=True)
        best, least = np.where(error < least, tried, best), np.minimum(error, least)
    return best.reshape(x.shape)


def signed_largest(x: Floats) -> Floats:
    """The value of largest magnitude gets the code -128, as in ggml's Q4_0: one code more."""
    blocks = x.reshape(-1, 32)
    top = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1)
    scale = top / np.float32(-128)
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)
    halves = np.sign(scale) * half(np.abs(scale))
    return (np.clip(np.rint(blocks * inverse), -128, 127) * halves).reshape(x.shape)


def asymmetric(x: Floats) -> Floats:
    """256 codes from the least to the largest value, two halves a block."""
    blocks = x.reshape(-1, 32)
    low, high = blocks.min(axis=1, keepdims=True), blocks.max(axis=1, keepdims=True)
    step, low = half((high - low) / np.float32(255)), low.astype(np.float16).astype(np.float32)
    inverse = np.divide(np.float32(1), step, out=np.zeros_like(step), where=step > 0)
    return (np.clip(np.rint((blocks - low) * inverse), 0, 255) * step + low).reshape(x.shape)


def float8(mantissa: int, size: int = 32) -> Form:
    """Sign, 7 - mantissa bits of exponent, mantissa; the block's amax is scaled to the largest number."""
    exponents = 7 - mantissa
    smallest = np.float32(2.0 ** (2 - 2**exponents - mantissa))  # largest exponent 0
    largest = np.float32(2 - 2.0**-mantissa)

    def form(x: Floats) -> Floats:
        blocks = x.reshape(-1, size)
        scale = np.abs(blocks).max(axis=1, keepdims=True) / largest
        inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
        y = blocks * inverse
        power = (y.view(np.uint32) & 0x7F800000).view(np.float32)  # of two, not above |y|
        step = np.maximum(power * np.float32(2.0**-mantissa), smallest)
        return (np.minimum(np.abs(np.rint(y / step) * step), largest) * np.sign(y) * half(scale)).reshape(x.shape)

    return form


def companded(power: float) -> Form:
    """Codes are 127 sign(x) (|x| / amax)^(1 / power): finer near zero, coarser near amax."""

    def form(x: Floats) -> Floats:
        blocks = x.reshape(-1, 32)
        top = np.abs(blocks).max(axis=1, keepdims=True)
        inverse = np.divide(np.float32(1), top, out=np.zeros_like(top), where=top > 0)
        codes = np.rint(127 * (np.abs(blocks) * inverse) ** np.float32(1 / power))
        return (np.sign(blocks) * (codes / np.float32(127)) ** np.float32(power) * half(top)).reshape(x.shape)

    return form


def squares(x: Floats, size: int = 32) -> Floats:
    """Companded in integers: d = amax / (127^2 / 128), code = round(sqrt(128 |x| / d)), half(d) * (code |code| / 128).

    Rounding twice is rounding once: what was rounded travels without loss.
    """
    blocks = x.reshape(-1, size)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127 * 127 / 128)
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    codes = np.rint(np.sqrt(128 * (np.abs(blocks) * inverse)))
    return (np.sign(blocks) * half(scale) * (np.square(codes) / 128)).reshape(x.shape)


def turned_blocks(size: int) -> Form:
    """q80 of blocks turned by a Hadamard matrix, which spreads outliers, turned back afterwards."""
    matrix = np.ones((1, 1), np.float32)
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    matrix /= np.float32(np.sqrt(size))
    q80 = by_largest(32)
    return lambda x: (q80(x.reshape(-1, size) @ matrix) @ matrix).reshape(x.shape)


def bf16(x: Floats) -> Floats:
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & np.uint32(0xFFFF0000)).view(np.float32)


def half_signed(x: Floats) -> Floats:
    return x.astype(np.float16).astype(np.float32)


def keep(x: Floats) -> Floats:
    return x


@dataclass(frozen=True)
class Rule:
    """`bits` a value; which nodes of the tree are rounded: all, or all but the root, or what travels on 8 nodes."""

    bits: float
    form: Form
    leaves: bool = True
    root: bool = True


FORMS = {
    "f32": Rule(32, keep),
    "bf16": Rule(16, bf16),
    "q80": Rule(8.5, by_largest(32)),
    "q80, scale per 16": Rule(9, by_largest(16)),
    "q80, scale per 64": Rule(8.25, by_largest(64)),
    "q80, amax/127.5": Rule(8.5, by_largest(32, 127.5)),
    "q80, half scale first": Rule(8.5, half_first),
    "q80, least squares": Rule(8.5, least_squares),
    "q80, amax is -128": Rule(8.5, signed_largest),
    "asymmetric": Rule(9, asymmetric),
    "e4m3": Rule(8.5, float8(3)),
    "e3m4": Rule(8.5, float8(4)),
    "e2m5": Rule(8.5, float8(5)),
    "squares": Rule(8.5, squares),
    "squares, scale per 64": Rule(8.25, lambda x: squares(x, 64)),
    "power 1.5": Rule(8.5, companded(1.5)),
    "power 3": Rule(8.5, companded(3)),
    "q80 turned by 64": Rule(8.5, turned_blocks(64)),
    "f16": Rule(16, half_signed),
    "q80, inner nodes only": Rule(8.5, by_largest(32), leaves=False),
    "q80, not the root": Rule(8.5, by_largest(32), root=False),
}


def tree_sum(leaves: list[Floats], rule: Rule) -> Floats:
    nodes = [rule.form(leaf) for leaf in leaves] if rule.leaves else leaves
    while len(nodes) > 1:
        rounding = rule.form if rule.root or len(nodes) > 2 else keep
        nodes = [rounding(a + b) for a, b in zip(nodes[::2], nodes[1::2], strict=True)]
    return nodes[0]
