# python -m pytest tests/kernels/test_bias.py
import numpy as np
import pytest

from dllama_py.float_types import Floats
from dllama_py.kernels import reference
from dllama_py.kernels.bias import add_bias, add_expert_bias
from dllama_py.kernels.team import Team
from tests.kernels import drive
from tests.kernels.samples import random, same_bits


@pytest.mark.parametrize("columns", [16, 48, 160])
def test_every_row_gets_the_bias_once(team: Team, columns: int) -> None:
    x, bias = random(4, columns, seed=1), random(columns, seed=2)
    expected = np.concatenate([x[:3] + bias, x[3:]])
    call = add_bias(n_rows=drive.words(3), x=x, stride=x.strides[0], bias=bias, n_groups=columns // 16)
    drive.run(team, call)
    assert same_bits(x, expected)


def with_expert_bias(team: Team, x: Floats, bias: Floats, rows: list[int], factors: Floats | None) -> Floats:
    """Entries of three experts: two, none and three rows; the bias is wider than what is taken of it."""
    out = x.copy()
    call = add_expert_bias(
        starts=drive.words(0, 2, 2, 5),
        n_experts=3,
        rows=drive.words(*rows),
        factors=0 if factors is None else factors,
        x=out,
        stride=out.strides[0],
        bias=bias[:, 16:],
        bias_stride=bias.strides[0],
        n_groups=x.shape[1] // 16,
    )
    drive.run(team, call)
    return out


def test_each_entry_gets_the_bias_of_its_expert(team: Team) -> None:
    x, bias = random(6, 48, seed=1), random(3, 80, seed=2)
    expected = x.copy()
    expected[[4, 0]] += bias[0, 16:64]
    expected[[1, 2, 5]] += bias[2, 16:64]
    assert same_bits(with_expert_bias(team, x, bias, [4, 0, 1, 2, 5], None), expected)


def test_weighted_biases_are_added_experts_ascending(team: Team) -> None:
    x, bias, factors = random(3, 48, seed=1), random(3, 80, seed=2), random(5, seed=3)
    expected = x.copy()
    for entry, row in enumerate([0, 2, 0, 1, 2]):
        expert = 0 if entry < 2 else 2
        reference._mix(bias[expert : expert + 1, 16:64], factors[entry : entry + 1], expected[row])
    assert same_bits(with_expert_bias(team, x, bias, [0, 2, 0, 1, 2], factors), expected)
