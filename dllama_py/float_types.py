"""The number formats that weights are stored in, by the names and numbers of ggml: sizes only."""

from enum import Enum

import numpy as np
from numpy.typing import NDArray

BLOCK = 32  # columns; every type is multiplied in runs of 32
SUPER_BLOCK = 256  # columns of a file block of the K types and most codebook types

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]


class FloatType(Enum):
    """A storage type: (name, elements of a file block, bytes of a file block, ggml type number)."""

    F32 = ("f32", 1, 4, 0)
    F16 = ("f16", 1, 2, 1)
    BF16 = ("bf16", 1, 2, 30)
    Q40 = ("q40", 32, 18, 2)
    Q41 = ("q41", 32, 20, 3)
    Q50 = ("q50", 32, 22, 6)
    Q51 = ("q51", 32, 24, 7)
    Q80 = ("q80", 32, 34, 8)
    Q2K = ("q2_k", 256, 84, 10)
    Q3K = ("q3_k", 256, 110, 11)
    Q4K = ("q4_k", 256, 144, 12)
    Q5K = ("q5_k", 256, 176, 13)
    Q6K = ("q6_k", 256, 210, 14)
    IQ2XXS = ("iq2_xxs", 256, 66, 16)
    IQ2XS = ("iq2_xs", 256, 74, 17)
    IQ3XXS = ("iq3_xxs", 256, 98, 18)
    IQ1S = ("iq1_s", 256, 50, 19)
    IQ4NL = ("iq4_nl", 32, 18, 20)
    IQ3S = ("iq3_s", 256, 110, 21)
    IQ2S = ("iq2_s", 256, 82, 22)
    IQ4XS = ("iq4_xs", 256, 136, 23)
    IQ1M = ("iq1_m", 256, 56, 29)
    MXFP4 = ("mxfp4", 32, 17, 39)

    def __init__(self, label: str, block_elements: int, block_bytes: int, ggml_type: int) -> None:
        self.label = label
        self.block_elements = block_elements
        self.block_bytes = block_bytes
        self.ggml_type = ggml_type

    @property
    def is_float(self) -> bool:
        """Whether activations meet this type in f32 rather than in q80 blocks."""
        return self in (FloatType.F32, FloatType.F16, FloatType.BF16)

    def n_bytes(self, n_elements: int) -> int:
        """Bytes of a run of elements that is a whole number of file blocks."""
        blocks, rest = divmod(n_elements, self.block_elements)
        if rest:
            raise ValueError(f"{n_elements} elements are not whole {self.label} blocks of {self.block_elements}")
        return blocks * self.block_bytes

    @classmethod
    def named(cls, label: str) -> "FloatType":
        for kind in cls:
            if kind.label == label:
                return kind
        raise ValueError(f"no float type {label!r}; known: {', '.join(kind.label for kind in cls)}")
