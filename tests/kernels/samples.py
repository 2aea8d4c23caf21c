"""Weights as file bytes and activations for the kernel tests, among them the values that go wrong first."""

import os

import numpy as np
from numpy.typing import NDArray

from dllama_py.float_types import Bytes, Floats, FloatType

IS_EVERYTHING_WANTED = bool(os.environ.get("DLLAMA_EVERY_TYPE"))  # as in make soak; compiling it takes many minutes
_RARE = {FloatType.IQ4NL, FloatType.IQ1S}  # of the steps of others
WEIGHTS_TYPES = [kind for kind in FloatType if IS_EVERYTHING_WANTED or kind not in _RARE]
_EVERY_STEP = [
    FloatType.F16,
    FloatType.Q40,
    FloatType.Q6K,
    FloatType.IQ4XS,
    FloatType.IQ2XS,
    FloatType.IQ3S,
    FloatType.IQ1M,
]
OF_EVERY_CPU = list(FloatType) if IS_EVERYTHING_WANTED else _EVERY_STEP
"""Types of weights whose products are compiled for each CPU: what differs there, all types have of one of these. The
CPU at hand multiplies all of them in test_matmul.py.
"""
DOT4_ALONE = {"AVX-VNNI", "NEON dotprod"}  # ways of products: the rest is the code for AVX2, for NEON


def kinds_for(way: str) -> list[FloatType]:
    """The types whose products are tested on CPUs that multiply in this way."""
    return [FloatType.Q6K, FloatType.IQ4XS] if way in DOT4_ALONE and not IS_EVERYTHING_WANTED else OF_EVERY_CPU


def is_whole_for(way: str) -> bool:
    """Whether all other kernels are tested there too; what is generic of them are conversions, which always are."""
    return IS_EVERYTHING_WANTED or way not in {*DOT4_ALONE, "generic"}


SCALES = [0.01, -0.02, 0.5, 0.0, -0.0, 65504.0, -65504.0, 2.0**-24, 1023 * 2.0**-24, 2.0**-14]  # halves
CODE_BYTES = [0x00, 0xFF, 0x80, 0x7F, 0x0F, 0xF0]
EXPONENTS_AT = {  # in a file block the upper bytes of its halves, where these are not at the front alone
    FloatType.Q41: [1, 3],
    FloatType.Q51: [1, 3],
    FloatType.Q2K: [81, 83],
    FloatType.Q3K: [109],
    FloatType.Q4K: [1, 3],
    FloatType.Q5K: [1, 3],
    FloatType.Q6K: [209],
    FloatType.IQ1M: [55],  # of which the upper bits count
    FloatType.MXFP4: [0],  # which is all
}
FINITE = 0xBB  # a mask of such a byte that leaves no infinity


def random(*shape: int, seed: int = 1) -> Floats:
    """Normal numbers float32 of any shape."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def weights(kind: FloatType, rows: int, columns: int, seed: int = 1) -> Bytes:
    """uint8 [rows, row_bytes]: every code and many scales, some blocks of one byte throughout."""
    rng = np.random.default_rng([seed, kind.ggml_type])
    if kind.is_float:
        return _float_weights(rng, kind, rows, columns)
    blocks = rng.integers(0, 256, (rows, columns // kind.block_elements, kind.block_bytes)).astype(np.uint8)
    uniform = rng.random(blocks.shape[:2]) < 0.25
    blocks[uniform] = rng.choice(CODE_BYTES, (uniform.sum(), 1))
    for at in EXPONENTS_AT.get(kind, [1]):
        halves = rng.choice(np.array(SCALES, np.float16), (*blocks.shape[:2], 1))
        put_half(kind, blocks, at, halves.view(np.uint8))
    return blocks.reshape(rows, -1)


def put_half(kind: FloatType, blocks: Bytes, at: int, half: Bytes) -> None:
    """A half, uint8 [..., 2], whose upper byte is to be at `at`; where there are no whole halves that byte alone."""
    if kind in (FloatType.IQ1M, FloatType.MXFP4):
        blocks[..., at] = half[..., 1] & FINITE
    else:
        blocks[..., at - 1 : at + 1] = half


def _float_weights(rng: np.random.Generator, kind: FloatType, rows: int, columns: int) -> Bytes:
    values = rng.standard_normal((rows, columns)).astype(np.float32)
    values *= rng.choice(np.float32([0, 1, 1, 1, 1e-7, 1e4]), (rows, columns))
    if kind is FloatType.F16:
        return values.astype(np.float16).view(np.uint8)
    values *= rng.choice(np.float32([1, 1, 1, 1e-38, 1e-33, 1e10]), (rows, columns))
    bits = values.view(np.uint32)
    return bits.view(np.uint8) if kind is FloatType.F32 else (bits >> 16).astype(np.uint16).view(np.uint8)


def activations(rows: int, columns: int, seed: int = 1) -> Floats:
    """float32 [rows, columns]: ordinary blocks, and blocks of zeros, of ties, of tiny and of huge numbers."""
    rng = np.random.default_rng(seed)
    blocks = rng.standard_normal((rows * columns // 32, 32)).astype(np.float32)
    blocks *= rng.choice(np.float32([1, 1, 1, 0, 1e15, 1e-30, 3e-37, 1e-40]), (len(blocks), 1))
    ties = rng.random(len(blocks)) < 0.2
    blocks[ties] = rng.integers(-254, 255, (ties.sum(), 32)).astype(np.float32) / 2
    blocks[ties, 0] = 127  # so that the scale is 1
    return blocks.reshape(rows, columns)


def same_bits(a: NDArray[np.generic], b: NDArray[np.generic]) -> bool:
    """Equal shapes, types and bytes: 0 and -0 differ."""
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()
