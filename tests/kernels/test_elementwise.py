# python -m pytest tests/kernels/test_elementwise.py
import numpy as np
import pytest

from dllama_py.blocks import Floats
from dllama_py.kernels import elementary, elementwise, reference
from dllama_py.kernels.team import Team
from tests.kernels import drive
from tests.kernels.samples import activations, random, same_bits

HIDDEN = {
    "gated_hidden": reference.gated,
    "gelu_hidden": reference.gelu_gated,
    "clamped_hidden": reference.clamped_swiglu,
}
EXCHANGES = {"f32": elementary.KEEP_F32, "bf16": elementary.ROUND_BF16, "q80": elementary.ROUND_Q80}


def is_quantized(blocks: np.ndarray, x: Floats) -> bool:
    codes, scales, sums, scaled_sums = drive.quantized_fields(blocks)
    expected_codes, expected_scales = reference.quantize(x.reshape(-1))
    halves = expected_codes.reshape(-1, 2, 16).sum(axis=2)
    return (
        same_bits(codes, expected_codes)
        and same_bits(scales, expected_scales)
        and same_bits(sums, halves)
        and same_bits(scaled_sums, scales * halves.sum(axis=1).astype(np.float32))
    )


@pytest.mark.parametrize("n_rows", [1, 2, 5])
def test_quantised_activations_equal_the_reference(team: Team, n_rows: int) -> None:
    x = activations(n_rows, 32 * 40, seed=n_rows)
    assert is_quantized(drive.quantize(team, x), x)


def test_a_block_below_the_smallest_normal_scale_is_zero(team: Team) -> None:
    smallest = np.float32(127 * 2.0**-126)
    x = np.zeros((1, 64), np.float32)
    x[0, 3], x[0, 35] = smallest, np.nextafter(smallest, np.float32(0))
    codes, scales, *_ = drive.quantized_fields(drive.quantize(team, x))
    assert (codes[3], scales[0]) == (127, 2.0**-126)
    assert (codes[35], scales[1]) == (0, 0)


@pytest.mark.parametrize("damage", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [0, 15, 16, 31])
def test_what_is_not_finite_makes_its_whole_block_so(team: Team, damage: float, place: int) -> None:
    x = random(1, 96)
    x[0, 32 + place] = damage
    codes, scales, *_ = drive.quantized_fields(drive.quantize(team, x))
    assert np.isfinite(scales).tolist() == [True, False, True]
    assert not codes[32:64].any() and codes[:32].any() and codes[64:].any()
    assert np.isnan(scales[1]) == np.isnan(damage)


@pytest.mark.parametrize("columns", [32, 96, 576])
@pytest.mark.parametrize("n_rows", [1, 4])
def test_norms_equal_the_reference(team: Team, n_rows: int, columns: int) -> None:
    x, weight = random(5, columns, seed=2), random(columns, seed=3)
    x[1] = 0
    x[2] *= np.float32(1e18)
    numbers = [4, 1, 2, 2][:n_rows]
    floats, quantized = drive.norm(team, x, numbers, weight, 1e-5)
    expected = np.stack([reference.rms_norm(x[i], weight, np.float32(1e-5)) for i in numbers])
    assert same_bits(floats, expected)
    assert is_quantized(quantized, expected)


@pytest.mark.parametrize("n_rows", [1, 3])
@pytest.mark.parametrize("name", HIDDEN)
def test_gated_hidden_values_equal_the_reference(team: Team, n_rows: int, name: str) -> None:
    gate, up = 30 * random(n_rows, 96, seed=4), 9 * random(n_rows, 96, seed=5)
    gate[0, :8] = [0, -0.0, 87, -87, 88.5, -88.5, 1e30, -1e30]
    up[0, 8:12] = [7, -7, 1e30, -1e30]
    floats, quantized = drive.gated_hidden(team, gate, up, getattr(elementwise, name))
    expected = HIDDEN[name](gate.reshape(-1), up.reshape(-1)).reshape(gate.shape)
    assert same_bits(floats, expected)
    assert is_quantized(quantized, expected)


@pytest.mark.parametrize("name", HIDDEN)
def test_nan_stays_nan_in_hidden_values(team: Team, name: str) -> None:
    gate, up = random(1, 96), random(1, 96)
    gate[0, 3], up[0, 40] = np.nan, np.nan
    floats, _ = drive.gated_hidden(team, gate, up, getattr(elementwise, name))
    assert np.flatnonzero(np.isnan(floats[0])).tolist() == [3, 40]


@pytest.mark.parametrize("n_rows", [1, 4])
def test_added_norms_equal_the_reference(team: Team, n_rows: int) -> None:
    x, y, weight = random(n_rows, 96, seed=2), 5 * random(n_rows, 96, seed=3), random(96, seed=4)
    expected = np.stack([x[i] + reference.rms_norm(y[i], weight, np.float32(1e-6)) for i in range(n_rows)])
    assert same_bits(drive.add_normed(team, x, y, weight, 1e-6), expected)


@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("n_leaves", [1, 2, 8, 16])
def test_the_tree_equals_the_reference(team: Team, exchange: str, n_leaves: int) -> None:
    leaves = activations(n_leaves * 3, 160, seed=n_leaves).reshape(n_leaves, 3, 160)
    leaves[n_leaves // 2] = 0  # an empty leaf
    expected = np.stack([reference.tree_sum(leaves[:, row], exchange) for row in range(3)])
    assert same_bits(drive.tree_sum(team, leaves, EXCHANGES[exchange]), expected)


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_a_rank_with_some_of_the_leaves_owns_a_subtree(team: Team, exchange: str) -> None:
    leaves = random(8, 2, 64, seed=6)
    rounding = EXCHANGES[exchange]
    parts = np.stack([drive.tree_sum(team, leaves[i : i + 2], rounding) for i in range(0, 8, 2)])
    assert same_bits(drive.tree_sum(team, parts, rounding), drive.tree_sum(team, leaves, rounding))


def test_a_scale_that_vanishes_as_a_half_leaves_positive_zeros(team: Team) -> None:
    leaves = np.full((1, 1, 32), -1e-9, np.float32)  # the scale 7.9e-12 has no half
    assert same_bits(drive.tree_sum(team, leaves, elementary.ROUND_Q80), np.zeros((1, 32), np.float32))


def test_additions_change_the_first_operand(team: Team) -> None:
    x, y = random(3, 64, seed=7), random(3, 64, seed=8)
    expected = x + y
    drive.run(team, elementwise.add(n_rows=drive.words(3), x=x, y=y, n_blocks=2))
    assert same_bits(x, expected)


def test_rows_beyond_the_step_are_left_alone(team: Team) -> None:
    x, y = random(3, 64, seed=9), random(3, 64, seed=10)
    kept = x[2].copy()
    drive.run(team, elementwise.add(n_rows=drive.words(2), x=x, y=y, n_blocks=2))
    assert same_bits(x[2], kept)
