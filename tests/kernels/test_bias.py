# python -m pytest tests/kernels/test_bias.py
import numpy as np
import pytest

from dllama_py.kernels.bias import add_bias
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
