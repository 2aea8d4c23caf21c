# python -m pytest tests/kernels/test_matmul.py
import numpy as np
import pytest

from dllama_py.blocks import FloatType
from dllama_py.kernels import reference
from dllama_py.kernels.team import Team
from tests.kernels import drive
from tests.kernels.samples import WEIGHTS_TYPES, activations, same_bits, weights

LEAVES = [  # of 8 blocks: one leaf, equal ones, empty ones at both ends and in the middle
    [0, 8],
    [0, 1, 2, 3, 4, 5, 6, 7, 8],
    [0, 0, 3, 3, 3, 7, 8, 8, 8],
]


@pytest.mark.parametrize("kind", WEIGHTS_TYPES, ids=lambda kind: kind.label)
@pytest.mark.parametrize("n_rows", [1, 2, 3, 4, 5, 8, 9, 17])
def test_products_equal_the_reference(team: Team, kind: FloatType, n_rows: int) -> None:
    data, x = weights(kind, 40, 256, seed=n_rows), activations(n_rows, 256, seed=n_rows)
    leaves = LEAVES[n_rows % len(LEAVES)]
    expected = reference.matmul(data, kind, x, np.array(leaves))
    assert same_bits(drive.matmul(team, kind, data, x, leaves), expected)
