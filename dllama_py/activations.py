"""How rows of activations look in a message from one stage of a pipeline to the next. Floor 0: names, numbers, sizes.

`kernels/activations.py` writes and reads them, docs/wire.md describes the bytes.
"""

from enum import Enum

from dllama_py.float_types import BLOCK, FloatType

ROW_SCALE_BYTES = 4


class ActivationType(Enum):
    """Values are (label, number in a message)."""

    F32 = ("f32", 0)
    BF16 = ("bf16", 1)
    INT8 = ("int8", 2)
    INT8_ROW = ("int8-row", 3)

    def __init__(self, label: str, number: int) -> None:
        self.label = label
        self.number = number

    def row_bytes(self, width: int) -> int:
        """Of a row of so many values, whole blocks of 32; ValueError if they are not."""
        if width % BLOCK:
            raise ValueError(f"{width} values are not whole blocks of {BLOCK}")
        return {
            ActivationType.F32: 4 * width,
            ActivationType.BF16: 2 * width,
            ActivationType.INT8: FloatType.Q80.n_bytes(width),
            ActivationType.INT8_ROW: width + ROW_SCALE_BYTES,
        }[self]

    @classmethod
    def named(cls, label: str) -> "ActivationType":
        """ValueError where there is none of that name."""
        for kind in cls:
            if kind.label == label:
                return kind
        raise ValueError(f"no encoding of activations {label!r}; known: {', '.join(kind.label for kind in cls)}")
