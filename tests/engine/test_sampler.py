# python -m pytest tests/engine/test_sampler.py
"""One sampler: literal ids, ties to the lowest id, draws keyed by seed and position alone."""

import hashlib
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllama_py.engine import exponentials, sampler
from dllama_py.engine.sampler import SamplerSettings, sample, uniform
from dllama_py.errors import InputError, UsageError

FOUR = np.log(np.array([0.1, 0.4, 0.3, 0.2], np.float32))


def ids(settings: SamplerSettings, n: int, logits: np.ndarray = FOUR, n_tokens: int = 4) -> list[int]:
    return [sample(logits, settings, position, n_tokens) for position in range(n)]


def test_uniform_has_these_values_for_ever() -> None:
    assert [uniform(0, 0), uniform(0, 1), uniform(1, 0)] == [
        0.6524484863740322,
        0.7012121095215252,
        0.36818951565166946,
    ]


def test_four_tokens_drawn_in_id_order() -> None:
    assert ids(SamplerSettings(temperature=1.0, seed=1), 16) == [1, 3, 0, 2, 1, 2, 2, 1, 1, 1, 2, 3, 1, 2, 2, 1]


def test_four_tokens_drawn_from_the_nucleus() -> None:
    settings = SamplerSettings(temperature=1.0, top_p=0.5, seed=1)
    assert ids(settings, 16) == [
        1,
        2,
        1,
        2,
        1,
        2,
        2,
        1,
        1,
        1,
        2,
        2,
        1,
        2,
        2,
        1,
    ]


def test_four_tokens_drawn_from_the_two_largest() -> None:
    settings = SamplerSettings(temperature=1.0, top_k=2, seed=1)
    assert ids(settings, 16) == [
        1,
        2,
        1,
        2,
        1,
        2,
        2,
        1,
        1,
        1,
        2,
        2,
        1,
        2,
        2,
        1,
    ]


def test_temperature_zero_takes_the_largest_and_the_lowest_of_equals() -> None:
    logits = np.zeros(256, np.float32)
    logits[[7, 200]] = 3.5
    assert sample(logits, SamplerSettings(), 0, 256) == 7


@pytest.mark.parametrize(
    ("settings", "kept"),
    [
        (SamplerSettings(temperature=1.0, top_k=2), {1, 3}),
        (SamplerSettings(temperature=1.0, top_p=0.4), {1, 3}),
        (SamplerSettings(temperature=1.0, top_p=0.1), {1}),
        (SamplerSettings(temperature=1.0, top_k=1), {1}),
        (SamplerSettings(temperature=1.0), {0, 1, 2, 3, 4}),
        (SamplerSettings(temperature=1.0, top_p=0.0), {0, 1, 2, 3, 4}),
    ],
)
def test_ties_at_the_cut_go_to_the_lowest_ids(settings: SamplerSettings, kept: set[int]) -> None:
    logits = np.array([0.0, 1.0, 0.0, 1.0, 1.0], np.float32)  # shares 0.099, 0.268, 0.099, 0.268, 0.268
    assert set(ids(settings, 300, logits, 5)) == kept


def test_the_nucleus_includes_the_token_that_crosses_its_edge() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.2], np.float32))
    assert set(ids(SamplerSettings(temperature=1.0, top_p=0.55), 300, logits, 3)) == {0, 1}
    assert set(ids(SamplerSettings(temperature=1.0, top_p=0.45), 300, logits, 3)) == {0}


def test_frequencies_follow_the_probabilities() -> None:
    drawn = [sample(FOUR, SamplerSettings(temperature=1.0, seed=seed), 5, 4) for seed in range(20000)]
    shares = np.bincount(drawn, minlength=4) / 20000
    assert np.abs(shares - [0.1, 0.4, 0.3, 0.2]).max() < 0.01


def test_a_higher_temperature_flattens() -> None:
    drawn = ids(SamplerSettings(temperature=2.0, seed=3), 20000)
    roots = np.sqrt([0.1, 0.4, 0.3, 0.2])
    assert np.abs(np.bincount(drawn) / 20000 - roots / roots.sum()).max() < 0.01


def test_padding_rows_are_never_sampled() -> None:
    logits = np.array([0.0, 0.0, 0.0, 0.0, 50.0, np.nan], np.float32)
    assert ids(SamplerSettings(), 1, logits) == [0]
    assert set(ids(SamplerSettings(temperature=1.0), 200, logits)) == {0, 1, 2, 3}


def test_minus_infinity_bars_a_token() -> None:
    logits = np.array([-np.inf, 0.0, -np.inf, 0.0], np.float32)
    assert set(ids(SamplerSettings(temperature=5.0), 200, logits)) == {1, 3}
    assert set(ids(SamplerSettings(temperature=1e-300), 200, logits)) == {1, 3}


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_logit_that_is_no_number_is_named(bad: float) -> None:
    with pytest.raises(InputError, match=f"logit {bad} for token 2"):
        sample(np.array([0.0, 1.0, bad, 2.0], np.float32), SamplerSettings(), 0, 4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"temperature": -0.1},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"top_k": -1},
        {"top_p": 1.1},
        {"top_p": math.nan},
        {"seed": -1},
        {"seed": 2**64},
    ],
)
def test_settings_out_of_range_are_refused(wrong: dict) -> None:
    with pytest.raises(UsageError, match=f"^{next(iter(wrong))} is .*expected"):
        SamplerSettings(**wrong)


@given(st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=40), st.integers(0, 2**64 - 1), st.integers(0, 9999))
def test_same_seed_and_position_give_the_same_token(values: list[float], seed: int, position: int) -> None:
    logits = np.array(values, np.float32)
    settings = SamplerSettings(temperature=0.8, top_p=0.9, top_k=20, seed=seed)
    first = sample(logits, settings, position, len(values))
    assert first == sample(np.append(logits, np.float32(99)), settings, position, len(values))


@given(st.lists(st.floats(-20, 20, width=32), min_size=1, max_size=60), st.floats(0.01, 0.99))
def test_the_nucleus_is_that_of_a_full_sort(values: list[float], top_p: float) -> None:
    weights = exponentials.exp_weights(np.array(values, np.float32), np.float32(max(values)), 1.0)
    order = np.argsort(-weights, kind="stable").tolist()
    total, running, expected = exponentials.tree_sum(weights), 0.0, []
    for index in order:
        running += weights[index]
        expected.append(index)
        if running > top_p * total:
            break
    assert sampler._nucleus(weights, top_p).tolist() == sorted(expected)


def test_exp_is_close_to_the_true_one() -> None:
    x = -np.geomspace(1e-9, 699, 20001)
    assert np.abs(exponentials.exp(x) / np.exp(x) - 1).max() < 2e-8
    assert exponentials.exp(np.array([0.0, -701.0, -np.inf])).tolist() == [1.0, 0.0, 0.0]


def test_the_bits_are_the_same_on_every_cpu() -> None:
    logits = ((np.arange(50000) * 7919 % 40009 - 20000) / np.float32(1000)).astype(np.float32)
    weights = exponentials.exp_weights(logits, logits.max(), 0.8)
    assert hashlib.sha256(weights.astype("<f8").tobytes()).hexdigest()[:16] == "dbe493e6d8357c3d"
    assert exponentials.tree_sum(weights) == float.fromhex("0x1.f4333f99dda80p+9")
    settings = SamplerSettings(temperature=0.8, top_p=0.9, seed=5)
    assert ids(settings, 6, logits, 50000) == [48997, 5239, 43202, 38948, 11211, 49876]
