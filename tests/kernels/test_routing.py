# python -m pytest tests/kernels/test_routing.py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllama_py.blocks import Floats
from dllama_py.kernels import reference
from dllama_py.kernels.routing import route, shared_factors
from dllama_py.kernels.team import Team
from tests.kernels import drive
from tests.kernels.samples import random, same_bits

Choice = list[tuple[int, np.float32]]


def routed(team: Team, logits: Floats, k: int, weighs_all: bool = False) -> list[Choice]:
    """float32 [T, experts] -> for each row its (expert, weight) in the order of the pairs."""
    n, n_experts = logits.shape
    starts, rows, pairs = drive.words(*[-1] * (n_experts + 1)), drive.words(*[-1] * n * k), drive.words(*[-1] * n * k)
    factors, chosen = drive.untouched(n * k), drive.words(*[-1] * n * k)
    call = route(
        n_rows=drive.words(n),
        logits=logits,
        stride=logits.strides[0],
        n_experts=n_experts,
        n_chosen=k,
        starts=starts,
        rows=rows,
        pairs=pairs,
        factors=factors,
        chosen=chosen,
        weighs_all=int(weighs_all),
    )
    drive.run(team, call)
    assert (starts[0], starts[-1]) == (0, n * k)
    result: dict[int, tuple[int, np.float32]] = {}
    for expert in range(n_experts):
        for entry in range(starts[expert], starts[expert + 1]):
            assert pairs[entry] // k == rows[entry]
            result[int(pairs[entry])] = (expert, factors[entry])
        assert (np.diff(rows[starts[expert] : starts[expert + 1]]) > 0).all()
    return [[result[row * k + place] for place in range(k)] for row in range(n)]


def expected(logits: Floats, k: int, weighs_all: bool = False) -> list[Choice]:
    return [list(zip(*reference.route(row, k, weighs_all), strict=True)) for row in logits]


@pytest.mark.parametrize(("n_experts", "k"), [(1, 1), (8, 2), (60, 4), (128, 8), (8, 8)])
@pytest.mark.parametrize("n_rows", [1, 3, 17])
def test_routes_equal_the_reference(team: Team, n_rows: int, n_experts: int, k: int) -> None:
    logits = 3 * random(n_rows, n_experts, seed=n_experts)
    assert routed(team, logits, k) == expected(logits, k)
    assert routed(team, logits, k, weighs_all=True) == expected(logits, k, weighs_all=True)


@given(st.lists(st.sampled_from([-1e30, -1.0, -0.0, 0.0, 1.0, 1e30]), min_size=4, max_size=9), st.integers(1, 4))
def test_ties_go_to_the_lower_index(logits: list[float], k: int) -> None:
    rows = np.array([logits], np.float32)
    assert routed(Team(1), rows, k) == expected(rows, k)


def test_a_tie_written_out(team: Team) -> None:
    half = np.float32(0.5)
    assert routed(team, np.array([[1, 3, 2, 3, 3]], np.float32), 2) == [[(1, half), (3, half)]]


def test_weights_are_a_softmax_over_the_chosen() -> None:
    chosen, weights = reference.route(np.array([0, 1, 5, 2], np.float32), 2)
    assert chosen == [2, 3]
    assert np.allclose(weights, np.exp([5.0, 2.0]) / np.exp([5.0, 2.0]).sum(), rtol=1e-6)


def test_weights_are_a_softmax_over_all() -> None:
    chosen, weights = reference.route(np.array([0, 1, 5, 2], np.float32), 2, weighs_all=True)
    assert chosen == [2, 3]
    assert np.allclose(weights, np.exp([5.0, 2.0]) / np.exp([0.0, 1.0, 5.0, 2.0]).sum(), rtol=1e-6)


def test_weights_of_a_shared_expert_equal_the_reference(team: Team) -> None:
    logits = np.zeros((5, 16), np.float32)
    logits[:, 0] = [0, 1, -2.5, 80, -80]
    factors = drive.untouched(5)
    call = shared_factors(n_rows=drive.words(5), logits=logits, stride=logits.strides[0], factors=factors)
    drive.run(team, call)
    assert same_bits(factors, np.array([reference.shared_factor(logit) for logit in logits[:, 0]], np.float32))
    assert np.allclose(factors, 1 / (1 + np.exp(-logits[:, 0])), rtol=1e-6)


def test_same_bits_tells_zeros_apart() -> None:
    assert not same_bits(np.float32([0.0]), np.float32([-0.0]))
