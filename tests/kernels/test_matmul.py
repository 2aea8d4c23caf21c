# python -m pytest tests/kernels/test_matmul.py
import numpy as np
import pytest

from dllama_py.blocks import FloatType
from dllama_py.kernels import reference
from dllama_py.kernels.team import Team
from tests.kernels import drive
from tests.kernels.samples import IS_EVERYTHING_WANTED, WEIGHTS_TYPES, activations, same_bits, weights

# Sums of experts are kernels of their own, whose steps are those of all products.
MIXED_TYPES = list(FloatType) if IS_EVERYTHING_WANTED else [FloatType.F16, FloatType.Q40, FloatType.Q4K]
LEAVES = [  # of 8 blocks: one leaf, equal ones, empty ones at both ends and in the middle
    [0, 8],
    [0, 1, 2, 3, 4, 5, 6, 7, 8],
    [0, 0, 3, 3, 3, 7, 8, 8, 8],
]


@pytest.mark.parametrize("kind", WEIGHTS_TYPES, ids=lambda kind: kind.label)
@pytest.mark.parametrize("n_rows", [1, 3, 8, 13, 17, 69])
def test_products_equal_the_reference(team: Team, kind: FloatType, n_rows: int) -> None:
    data, x = weights(kind, 40, 256, seed=n_rows), activations(n_rows, 256, seed=n_rows)
    leaves = LEAVES[n_rows % len(LEAVES)]
    expected = reference.matmul(data, kind, x, np.array(leaves))
    assert np.isfinite(expected).all()
    assert same_bits(drive.matmul(team, kind, data, x, leaves), expected)


@pytest.mark.parametrize("kind", WEIGHTS_TYPES, ids=lambda kind: kind.label)
@pytest.mark.parametrize("n_outputs", [1, 15, 16, 17, 33])
def test_outputs_need_not_fill_a_group(team: Team, kind: FloatType, n_outputs: int) -> None:
    data, x = weights(kind, n_outputs, 256, seed=n_outputs), activations(2, 256)
    assert same_bits(drive.matmul(team, kind, data, x, [0, 8]), reference.matmul(data, kind, x, np.array([0, 8])))


@pytest.mark.parametrize("kind", WEIGHTS_TYPES, ids=lambda kind: kind.label)
def test_a_row_does_not_know_its_neighbours(team: Team, kind: FloatType) -> None:
    data, x = weights(kind, 16, 256), activations(17, 256)
    together = drive.matmul(team, kind, data, x, LEAVES[1])
    for row in range(17):
        assert same_bits(drive.matmul(team, kind, data, x[row : row + 1], LEAVES[1])[:, 0], together[:, row])


@pytest.mark.parametrize("kind", MIXED_TYPES, ids=lambda kind: kind.label)
@pytest.mark.parametrize("n_rows", [1, 3, 12])
def test_experts_equal_the_reference(team: Team, kind: FloatType, n_rows: int) -> None:
    data = np.stack([weights(kind, 24, 256, seed=expert) for expert in range(5)])  # [experts, N, row_bytes]
    x = activations(n_rows, 256, seed=n_rows)
    routes = [[(row % 2, 0.75), (2 + row % 3, 0.25)] for row in range(n_rows)]
    each, mixed = drive.mixture(team, kind, data, x, routes)
    for row, chosen in enumerate(routes):
        parts = [reference.matmul(data[e], kind, x[row : row + 1], np.array([0, 4, 8]))[:, 0] for e, _ in chosen]
        factors = np.array([factor for _, factor in chosen], np.float32)
        assert same_bits(mixed[:, row], reference.mix(np.stack(parts), factors))
        for place, (expert, _) in enumerate(chosen):
            whole = reference.matmul(data[expert], kind, x[row : row + 1], np.array([0, 8]))[0, 0]
            assert same_bits(each[row, place], whole)


def test_q80_weights_of_minus_128_are_exact(team: Team) -> None:
    data = np.full((16, 34), 0x80, np.uint8)
    data[:, :2] = np.array([1], np.float16).view(np.uint8)
    x = np.full((1, 32), 127, np.float32)
    assert (drive.matmul(team, FloatType.Q80, data, x, [0, 1]) == -128 * 127 * 32).all()


def test_the_largest_q6k_sum_is_exact(team: Team) -> None:
    data = np.zeros((16, 210), np.uint8)  # codes of -32
    data[:, 192:208] = 0x80  # scales of -128
    data[:, 208:] = np.array([1], np.float16).view(np.uint8)
    x = np.full((1, 256), 127, np.float32)
    assert (drive.matmul(team, FloatType.Q6K, data, x, list(range(9))) == 128 * 32 * 127 * 32).all()
