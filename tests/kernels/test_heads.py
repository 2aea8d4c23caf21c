# python -m pytest tests/kernels/test_heads.py
import numpy as np
import pytest

from dllama_py.blocks import Floats
from dllama_py.kernels import reference
from dllama_py.kernels.team import Team
from tests.kernels.paged import Heads, PagedCache, prepare
from tests.kernels.samples import random, same_bits

ROWS = [(0, 0), (0, 63), (1, 64), (1, 65), (0, 64)]
TABLES = [[2, 0], [1, 3]]


def turns(width: int) -> tuple[Floats, Floats]:
    angles = np.outer(np.arange(66), 10000.0 ** (-2 * np.arange(width // 2) / width))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def heads_of(width: int, norms: bool) -> Heads:
    weights = (random(width, seed=4), random(width, seed=5)) if norms else (None, None)
    q, k, v = (random(len(ROWS), n, width, seed=n) for n in (6, 3, 2))
    return Heads(q, k[:, :2].copy(), v, *weights)


def expected(head: Floats, norm: Floats | None, cos: Floats, sin: Floats, adjacent: bool) -> Floats:
    x = head if norm is None else reference.rms_norm(head, norm, np.float32(1e-6))
    return reference.rope(x, cos, sin, adjacent)


@pytest.mark.parametrize("half", [True, False], ids=["f16", "f32"])
@pytest.mark.parametrize("adjacent", [True, False], ids=["adjacent", "halves"])
@pytest.mark.parametrize("norms", [True, False], ids=["norms", "no_norms"])
@pytest.mark.parametrize("width", [16, 32, 48, 64, 128, 256])
def test_heads_equal_the_reference(team: Team, half: bool, adjacent: bool, norms: bool, width: int) -> None:
    heads, (cos, sin) = heads_of(width, norms), turns(width)
    cache = PagedCache.empty(TABLES, 2, width, half)
    q = prepare(team, cache, heads, ROWS, (cos, sin), adjacent)
    rounded = reference.round_f16 if half else np.copy
    for row, (slot, position) in enumerate(ROWS):
        turn = (cos[position], sin[position], adjacent)
        key, value = cache.stored(slot, position)
        assert same_bits(value, rounded(heads.v[row]))
        for head in range(6):
            assert same_bits(q[row, head], expected(heads.q[row, head], heads.q_norm, *turn))
        for head in range(2):
            assert same_bits(key[head], rounded(expected(heads.k[row, head], heads.k_norm, *turn)))


def test_halves_in_the_cache_are_rounded_to_even_and_saturate(team: Team) -> None:
    heads = heads_of(16, norms=False)
    heads.v[0, 0, :8] = [1e6, -1e6, 65519, 65520, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 2.0**-25, 3 * 2.0**-25]
    cache = PagedCache.empty(TABLES, 2, 16, half=True)
    prepare(team, cache, heads, ROWS, turns(16), adjacent=True)
    stored = cache.stored(*ROWS[0])[1][0, :8].tolist()
    assert stored == [65504, -65504, 65504, 65504, 1, 1 + 2.0**-9, 0, 2.0**-23]


def test_other_positions_of_the_cache_stay_as_they_are(team: Team) -> None:
    cache = PagedCache.empty(TABLES, 2, 32, half=True)
    prepare(team, cache, heads_of(32, norms=True), ROWS, turns(32), adjacent=False)
    assert np.isfinite(cache.keys).sum() == np.isfinite(cache.values).sum() == len(ROWS) * 2 * 32
