# python -m pytest tests/kernels/test_residual_hash.py
import numpy as np
import pytest

from dllama_py.blocks import Floats
from dllama_py.kernels.residual_hash import hash_rows
from dllama_py.kernels.team import Team
from tests.kernels import drive
from tests.kernels.samples import random

LEFT_ALONE = -1


def hashed(team: Team, x: Floats, n_rows: int) -> np.ndarray:
    """x float32 [planes, T, width] -> int64 [planes, T]."""
    planes, t, width = x.shape
    out = np.full((planes, t), LEFT_ALONE, np.int64)
    call = hash_rows(
        n_rows=drive.words(n_rows),
        x=x,
        x_stride=x.strides[1],
        n_planes=planes,
        plane_stride=x.strides[0],
        width=width,
        out=out,
        out_stride=out.strides[0],
    )
    drive.run(team, call)
    return out


def turned(word: int, n: int, bits: int = 32) -> int:
    return (word << n | word >> (bits - n)) % 2**bits


def expected(row: Floats) -> int:
    """The rule in Python's integers."""
    total = 0
    for lane in range(16):
        h = 0
        for word in row[lane::16].view(np.uint32).tolist():
            h ^= turned(word * 0xCC9E2D51 % 2**32, 15) * 0x1B873593 % 2**32
            h = (turned(h, 13) * 5 + 0xE6546B64) % 2**32
        total = (turned(total, 5, 64) ^ h) * 0x9E3779B97F4A7C15 % 2**64
    return total - 2**64 if total >> 63 else total


@pytest.mark.parametrize(("planes", "n_rows", "width"), [(1, 1, 16), (1, 5, 576), (8, 3, 160)])
def test_the_kernel_follows_the_rule(team: Team, planes: int, n_rows: int, width: int) -> None:
    x = random(planes, n_rows, width, seed=width)
    assert hashed(team, x, n_rows).tolist() == [[expected(row) for row in plane] for plane in x]


def test_rows_beyond_those_asked_for_are_left_alone(team: Team) -> None:
    out = hashed(team, random(2, 4, 64), 3)
    assert (out[:, 3] == LEFT_ALONE).all() and (out[:, :3] != LEFT_ALONE).all()
    assert (hashed(team, random(2, 4, 64), 0) == LEFT_ALONE).all()


def test_one_bit_anywhere_shows(team: Team) -> None:
    x = np.repeat(random(1, 1, 64), 64 * 32 + 1, axis=1)
    for bit in range(64 * 32):
        x[0, bit].view(np.uint32)[bit // 32] ^= np.uint32(1 << bit % 32)
    assert len(set(hashed(team, x, x.shape[1])[0].tolist())) == x.shape[1]


def test_signs_turned_in_pairs_and_words_exchanged_show(team: Team) -> None:
    x = random(1, 4, 64)
    x[0, 1:] = x[0, 0]
    x[0, 1, [3, 19]] *= -1  # of one lane
    x[0, 2, [3, 4]] *= -1
    x[0, 3, [3, 19]] = x[0, 3, [19, 3]]
    assert len(set(hashed(team, x, 4)[0].tolist())) == 4
