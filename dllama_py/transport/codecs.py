"""How partial sums look on the wire, and how two of them are added; and float32 as it is.

The rules are in docs/arithmetic.md, "Sums that cross nodes". The codecs that round need fast code and come from
`kernels/`. Values handed to a codec are already rounded to its format, so encoding loses nothing.
"""

from typing import Protocol

import numpy as np

from dllama_py.blocks import Bytes, Floats


class Codec(Protocol):
    """Values are float32 [n], n whole blocks of 32; the wire is uint8 [wire_bytes(n)], proportional to n."""

    @property
    def is_plain(self) -> bool:
        """Whether the bytes of the values are the wire, so that nothing need be encoded."""

    def wire_bytes(self, n_values: int, /) -> int: ...

    def encode(self, values: Floats, wire: Bytes, /) -> None:
        """Write the values, which are rounded already, to the wire."""

    def decode(self, wire: Bytes, values: Floats, /) -> None:
        """Read values from the wire."""

    def add(self, values: Floats, received: Bytes, /) -> None:
        """values = round(values + decoded received); the sum of two does not depend on which of them is one's own."""


class PlainCodec:
    """float32 as it is."""

    is_plain = True

    def wire_bytes(self, n_values: int, /) -> int:
        return 4 * n_values

    def encode(self, values: Floats, wire: Bytes, /) -> None:
        wire.view(np.float32)[...] = values

    def decode(self, wire: Bytes, values: Floats, /) -> None:
        values[...] = wire.view(np.float32)

    def add(self, values: Floats, received: Bytes, /) -> None:
        np.add(values, received.view(np.float32), out=values)
