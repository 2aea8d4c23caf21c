"""Weights as file bytes and activations for the kernel tests, among them the values that go wrong first."""

import numpy as np
from numpy.typing import NDArray

from dllama_py.float_types import COMPUTED, Bytes, Floats, FloatType

WEIGHTS_TYPES = list(COMPUTED)
SCALES = [0.01, -0.02, 0.5, 0.0, -0.0, 65504.0, -65504.0, 2.0**-24, 1023 * 2.0**-24, 2.0**-14]  # halves
CODE_BYTES = [0x00, 0xFF, 0x80, 0x7F, 0x0F, 0xF0]
HALVES_AT = {  # in a file block, where not at the front alone; the byte behind is the upper one
    FloatType.Q41: [0, 2],
    FloatType.Q51: [0, 2],
    FloatType.Q2K: [80, 82],
    FloatType.Q3K: [108],
    FloatType.Q4K: [0, 2],
    FloatType.Q5K: [0, 2],
    FloatType.Q6K: [208],
    FloatType.IQ1M: [54],  # its highest bits; the others lie before it
    FloatType.MXFP4: [-1],  # its exponent
}


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
    for at in HALVES_AT.get(kind, [0]):
        halves = rng.choice(np.array(SCALES, np.float16), (*blocks.shape[:2], 1))
        blocks[..., at : at + 2] = halves.view(np.uint8)
    return blocks.reshape(rows, -1)


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
