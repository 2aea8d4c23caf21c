# python -m pytest tests/kernels/test_exchange.py
"""The kernels of the exchange against their definition in support/codecs.py, byte for byte."""

import numpy as np
import pytest

from dllama_py.kernels import exchange
from dllama_py.kernels.elementary import KEEP_F32, ROUND_BF16, ROUND_Q80
from dllama_py.kernels.program import Kernel
from dllama_py.kernels.team import Team
from tests.kernels.drive import run, words
from tests.support.codecs import CODECS

ROUNDINGS = {"f32": KEEP_F32, "bf16": ROUND_BF16, "q80": ROUND_Q80}
N_ROWS, N_BLOCKS = 2, 5
WHOLE = (0, 0, 10)
SPANS = [WHOLE, (1, 0, 5), (1, 1, 5), (2, 1, 2), (2, 3, 3)]  # level, path, blocks
FIRST_BLOCKS = [0, 0, 5, 5, 7]


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


def code(
    team: Team, kernel: Kernel, name: str, x: np.ndarray, wire: np.ndarray, span: tuple[int, int, int] = WHOLE
) -> None:
    """Runs one of the kernels on 2 rows of 5 blocks."""
    level, path, _ = span
    call = kernel(
        n_rows=words(N_ROWS),
        n_blocks=N_BLOCKS,
        level=level,
        path=path,
        values=x,
        wire=wire,
        rounding=ROUNDINGS[name],
    )
    run(team, call)


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e4, 1e9, 1e-7, 1e-9, 1e-38, 1e-42])
@pytest.mark.parametrize("name", ROUNDINGS)
def test_same_bytes_as_the_definition(team: Team, name: str, scale: float) -> None:
    codec = CODECS[name]
    own, other = rounded(name, values(1, scale)), rounded(name, values(2, scale))
    wanted, wire = (np.zeros(codec.wire_bytes(320), np.uint8) for _ in range(2))
    assert wire.size == 10 * exchange.WIRE_BLOCK_BYTES[ROUNDINGS[name]]
    codec.encode(own, wanted)
    if name != "f32":  # travels as it is
        code(team, exchange.encode, name, own, wire)
        assert wire.tobytes() == wanted.tobytes()
    back = np.empty_like(own)
    code(team, exchange.decode, name, back, wanted)
    assert back.tobytes() == own.tobytes()

    codec.encode(other, wire)
    sums = [own.copy(), own.copy()]
    codec.add(sums[0], wire)
    code(team, exchange.add_received, name, sums[1], wire)
    assert sums[1].tobytes() == sums[0].tobytes()


@pytest.mark.parametrize(("span", "first"), list(zip(SPANS, FIRST_BLOCKS, strict=True)))
@pytest.mark.parametrize("name", ["bf16", "q80"])
def test_only_the_span_is_touched(team: Team, name: str, span: tuple[int, int, int], first: int) -> None:
    codec, own = CODECS[name], rounded(name, values(1, 1.0))
    whole, part = np.zeros(codec.wire_bytes(320), np.uint8), np.zeros(codec.wire_bytes(320), np.uint8)
    codec.encode(own, whole)
    code(team, exchange.encode, name, own, part, span)
    inside = slice(codec.wire_bytes(32 * first), codec.wire_bytes(32 * (first + span[2])))
    assert part[inside].tobytes() == whole[inside].tobytes()
    part[inside] = 0
    assert not part.any()

    back = np.zeros(320, np.float32)
    code(team, exchange.decode, name, back, whole, span)
    inside = slice(32 * first, 32 * (first + span[2]))
    assert back[inside].tobytes() == own[inside].tobytes()
    back[inside] = 0
    assert not back.any()
