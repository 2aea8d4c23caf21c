# python -m pytest tests/engine/test_comparison.py
import math

import numpy as np
import pytest

from dllama_py.engine.comparison import Distance, distance, divergence, first_bad_row, first_difference


def rows(*values: list[float]) -> np.ndarray:
    return np.array(values, np.float32)


REFERENCE = rows([0, 1, 2], [5, 4.75, 0], [0, 0, 1])


def test_equal_logits_are_at_no_distance() -> None:
    assert distance(REFERENCE, REFERENCE.copy(), 1) == Distance(True, None, 0.0, 0.0, 0.25)


def test_what_differs_is_found() -> None:
    other = rows([0, 1, 2], [5, 5.5, 0], [0, 0, 1])
    found = distance(REFERENCE, other, 1)
    assert (found.same_bits, found.first_differing_token) == (False, 0)
    assert (found.max_abs_logit_difference, found.min_top2_margin) == (0.75, 0.5)
    assert found.kl_nats == pytest.approx(divergence(REFERENCE[1], other[1]) / 3)
    assert distance(REFERENCE, other, 2).first_differing_token is None  # the row before chooses no token


def test_zeros_of_both_signs_are_other_bits() -> None:
    found = distance(REFERENCE, rows([-0.0, 1, 2], [5, 4.75, 0], [0, 0, 1]), 0)
    assert (found.same_bits, found.max_abs_logit_difference, found.first_differing_token) == (False, 0.0, None)


def test_ties_go_to_the_lowest_id() -> None:
    assert first_difference(rows([1, 1, 0]), rows([1, 0, 0])) is None
    assert first_difference(rows([1, 1, 0]), rows([0, 1, 1])) == 0


def test_divergence_of_known_distributions() -> None:
    half = rows([0, 0])[0]
    quarters = np.log(np.array([0.25, 0.75])).astype(np.float32)
    assert divergence(half, quarters) == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3), abs=1e-7)
    assert divergence(half, half + np.float32(1000)) == 0
    assert divergence(rows([1000, -1000])[0], half) == pytest.approx(math.log(2))


def test_rows_that_are_no_numbers() -> None:
    assert first_bad_row(rows([0, 1], [math.nan, 0], [math.inf, 0], [2, 3])) == 1
    assert first_bad_row(rows([0, -math.inf])) == 0
    assert first_bad_row(REFERENCE) is None
