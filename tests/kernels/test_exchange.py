# python -m pytest tests/kernels/test_exchange.py
"""The fast codecs of the exchange against their definition in support/codecs.py, byte for byte."""

import numpy as np
import pytest

from dllama_py.kernels.exchange import Bf16Exchange, Q80Exchange
from dllama_py.transport.codecs import Codec
from tests.support.codecs import CODECS

FAST: dict[str, Codec] = {"bf16": Bf16Exchange(), "q80": Q80Exchange()}


def values(seed: int, scale: float) -> np.ndarray:
    x = (np.random.default_rng(seed).standard_normal(320) * scale).astype(np.float32)
    x[32:64] = 0
    x[64] = 0.0 * -1
    return x


def rounded(name: str, x: np.ndarray) -> np.ndarray:
    """To the format, as the sum with nothing."""
    codec, out = CODECS[name], x.copy()
    nothing = np.zeros(codec.wire_bytes(x.size), np.uint8)
    codec.add(out, nothing)
    return out


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e4, 1e9, 1e-7, 1e-9, 1e-38, 1e-42])
@pytest.mark.parametrize("name", FAST)
def test_same_bytes_as_the_definition(name: str, scale: float) -> None:
    fast, slow = FAST[name], CODECS[name]
    own, other = rounded(name, values(1, scale)), rounded(name, values(2, scale))
    assert fast.wire_bytes(320) == slow.wire_bytes(320)
    wires = [np.zeros(slow.wire_bytes(320), np.uint8) for _ in range(3)]
    fast.encode(own, wires[0])
    slow.encode(own, wires[1])
    slow.encode(other, wires[2])
    assert wires[0].tobytes() == wires[1].tobytes()
    back = np.empty_like(own)
    fast.decode(wires[0], back)
    assert back.tobytes() == own.tobytes()
    sums = [own.copy(), own.copy()]
    for codec, x in zip((fast, slow), sums, strict=True):
        codec.add(x, wires[2])
    assert sums[0].tobytes() == sums[1].tobytes()
