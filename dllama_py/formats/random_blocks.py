"""Random blocks of weights of any type: every code and scale appears, and the values have the deviation asked for.

For measuring and testing; no model's weights are quantised into these types here.
"""

import math

import numpy as np

from dllama_py.blocks import Bytes, Floats, FloatType, dequantize, quantize

_MEASURED_BLOCKS = 256
_HALVES = {  # where the scale lies, or scale and minimum with their ratio: that of the mean code. Else at 0.
    FloatType.Q41: ((0, 1.0), (2, -7.5)),
    FloatType.Q51: ((0, 1.0), (2, -15.5)),
    FloatType.Q2K: ((80, 1.0), (82, 1.5)),
    FloatType.Q3K: ((108, 1.0),),
    FloatType.Q4K: ((0, 1.0), (2, 7.5)),
    FloatType.Q5K: ((0, 1.0), (2, 15.5)),
    FloatType.Q6K: ((208, 1.0),),
}


def random_blocks(kind: FloatType, n_elements: int, deviation: float, seed: int) -> Bytes:
    """uint8 [bytes] of whole blocks; the same for the same arguments."""
    random = np.random.default_rng(seed)
    if kind.is_float or kind in (FloatType.Q40, FloatType.Q80):
        values = random.standard_normal((1, n_elements), np.float32) * np.float32(deviation)
        return (_bf16(values) if kind is FloatType.BF16 else quantize(values, kind)).reshape(-1)
    n_blocks = n_elements // kind.block_elements
    blocks = random.integers(0, 256, (n_blocks, kind.block_bytes), dtype=np.uint8)
    _set_scale(blocks, kind, 1.0)
    scale = deviation / float(dequantize(blocks[:_MEASURED_BLOCKS], kind).std())
    _set_scale(blocks, kind, scale)
    return blocks.reshape(-1)


def _set_scale(blocks: Bytes, kind: FloatType, scale: float) -> None:
    if kind is FloatType.MXFP4:
        _set_exponents(blocks, scale)
        return
    if kind is FloatType.IQ1M:  # a quarter of the half above each 12 bits of scales
        bits = int(np.array([scale], np.float16).view(np.uint16)[0])
        for quarter in range(4):
            blocks[:, 49 + 2 * quarter] = blocks[:, 49 + 2 * quarter] & 15 | (bits >> 4 * quarter & 15) << 4
        return
    for at, ratio in _HALVES.get(kind, ((0, 1.0),)):
        blocks[:, at : at + 2] = np.array([scale * ratio], np.float16).view(np.uint8)


def _set_exponents(blocks: Bytes, scale: float) -> None:
    """Two neighbouring powers of two, whose mean square is the scale's; a block says twice what it multiplies with."""
    power = math.floor(math.log2(scale))
    larger = (scale**2 / 4.0**power - 1) / 3
    blocks[:, 0] = 128 + power + (np.arange(len(blocks)) * 0.618 % 1 < larger)


def _bf16(values: Floats) -> Bytes:
    return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
