"""What every block of weights is made of: integer codes, integer scales and minima, and one or two float factors.

The value of a column is `(d * scale) * code + m * minimum`, in float32. Here are the parts as plain arrays, whatever
the type; `plain_blocks`, `k_blocks` and `codebook_blocks` know where they lie in the bytes of a file.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dllama_py.float_types import Bytes, Floats

Integers = NDArray[np.integer]


class Parts(NamedTuple):
    """Of blocks [..., E columns]. Scales and minima belong to equal runs of columns: E (one of them), 32 or 16."""

    codes: NDArray[np.int8]  # [..., E]
    d: Floats  # [..., 1]
    scales: Integers  # [..., S]
    m: Floats | None = None  # [..., 1]
    minima: Integers | None = None  # [..., S], where there is m


def values_of(parts: Parts) -> Floats:
    """float32 [..., E]."""
    scales = parts.d * parts.scales.astype(np.float32)  # [..., S]
    codes = parts.codes.reshape(*scales.shape, -1).astype(np.float32)  # [..., S, E / S]
    values = scales[..., None] * codes
    if parts.m is not None and parts.minima is not None:
        values += (parts.m * parts.minima.astype(np.float32))[..., None]
    return values.reshape(parts.codes.shape)


def ones(blocks: Bytes) -> Integers:
    """The scale of blocks without scales: int8 [..., 1]."""
    return np.ones((*blocks.shape[:-1], 1), np.int8)


def half(blocks: Bytes, at: int) -> Floats:
    """The half at a byte of every block: float32 [..., 1]."""
    return np.ascontiguousarray(blocks[..., at : at + 2]).view(np.float16).astype(np.float32)


def nibbles(packed: Bytes) -> Bytes:
    """Bytes [..., n] -> their low nibbles, then their high ones [..., 2n]."""
    return np.concatenate([packed & 15, packed >> 4], axis=-1)


def bit_fields(packed: Bytes, width: int) -> Bytes:
    """Bytes [..., n] -> the fields of `width` bits: the lowest of all bytes, then the next [..., 8 / width * n]."""
    mask = np.uint8((1 << width) - 1)
    return np.concatenate([packed >> shift & mask for shift in range(0, 8, width)], axis=-1)
