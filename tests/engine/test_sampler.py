# python -m pytest tests/engine/test_sampler.py
"""One sampler: literal ids, ties to the lowest id, draws keyed by seed and position alone."""

import hashlib
import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllama_py.engine import exponentials
from dllama_py.engine.sampler import SamplerSettings, uniform
from dllama_py.engine.sampler import sample as sample_scores
from dllama_py.errors import InputError, UsageError
from tests.support.known import N_SHARES, borders, scores_of

FOUR = np.log(np.array([0.1, 0.4, 0.3, 0.2], np.float32))


def sample(logits: np.ndarray, settings: SamplerSettings, position: int, n_tokens: int, n_ranks: int = 1) -> int:
    return sample_scores(scores_of(logits, settings.ask(n_tokens), n_ranks), settings, position)


def ids(settings: SamplerSettings, n: int, logits: np.ndarray = FOUR, n_tokens: int = 4) -> list[int]:
    scores = scores_of(logits, settings.ask(n_tokens))
    return [sample_scores(scores, settings, position) for position in range(n)]


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
    scores = scores_of(FOUR, SamplerSettings(temperature=1.0).ask(4))
    drawn = [sample_scores(scores, SamplerSettings(temperature=1.0, seed=seed), 5) for seed in range(5000)]
    shares = np.bincount(drawn, minlength=4) / 5000
    assert np.abs(shares - [0.1, 0.4, 0.3, 0.2]).max() < 0.02


def test_a_higher_temperature_flattens() -> None:
    drawn = ids(SamplerSettings(temperature=2.0, seed=3), 5000)
    roots = np.sqrt([0.1, 0.4, 0.3, 0.2])
    assert np.abs(np.bincount(drawn) / 5000 - roots / roots.sum()).max() < 0.02


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


def naive(logits: np.ndarray, settings: SamplerSettings, position: int, n_tokens: int) -> int:
    """A sampler that looks at every token, one at a time, as docs/arithmetic.md says."""
    logits = logits[:n_tokens]
    order = sorted(range(len(logits)), key=lambda token: (-logits[token], token))
    if settings.is_greedy:
        return order[0]
    largest, u = float(logits[order[0]]), uniform(settings.seed, position)
    weights = exponentials.exp_weights(logits, largest, settings.temperature).tolist()
    shares = scores_of(np.append(logits, np.zeros(0, np.float32)), settings.ask(n_tokens)).shares
    factors = exponentials.exp_weights(shares[:, 0], largest, settings.temperature).tolist()
    kept = order[: settings.top_k] if settings.keeps_few(n_tokens) else order
    if settings.has_nucleus:
        total = sum_of([weights[t] for t in kept]) if kept is not order else sum_of(factors * shares[:, 1])
        nucleus: list[int] = []
        while len(nucleus) < len(kept) and sum_of([weights[t] for t in nucleus]) <= settings.top_p * total:
            nucleus.append(kept[len(nucleus)])
        kept = nucleus
    if kept is order:
        return in_id_order(logits, factors * shares[:, 1], u, settings.temperature)
    return kept[drawn([weights[t] for t in kept], u)]


def in_id_order(logits: np.ndarray, shares: Sequence[float], u: float, temperature: float) -> int:
    share = drawn(shares, u)
    part = (u * sum_of(shares) - sum_of(shares[:share])) / shares[share]
    start, stop = borders(len(logits), N_SHARES)[share : share + 2]
    weights = exponentials.exp_weights(logits[start:stop], float(logits[start:stop].max()), temperature)
    return start + drawn(weights, min(max(part, 0.0), 1.0))


def sum_of(values: Sequence[float]) -> float:
    total = 0.0
    for value in values:
        total += float(value)
    return total


def drawn(weights: Sequence[float], u: float) -> int:
    """The first place at which the running sum is above u of the whole, or is the whole."""
    goal, running = u * sum_of(weights), 0.0
    for place, weight in enumerate(weights):
        running += float(weight)
        if running > goal or running == sum_of(weights):
            return place
    raise AssertionError


WISHES = [
    SamplerSettings(),
    SamplerSettings(temperature=0.8, top_k=1),
    SamplerSettings(temperature=0.8, top_k=7, seed=3),
    SamplerSettings(temperature=0.8, top_k=290, seed=4),
    SamplerSettings(temperature=0.8, top_p=0.9, seed=5),
    SamplerSettings(temperature=1.5, top_p=0.999, seed=6),
    SamplerSettings(temperature=1.5, top_p=0.99999, seed=6),
    SamplerSettings(temperature=0.7, top_k=20, top_p=0.6, seed=7),
    SamplerSettings(temperature=1.0, seed=8),
    SamplerSettings(temperature=1e-300, seed=9),
    SamplerSettings(temperature=1e300, top_p=0.5, seed=9),
]


@pytest.mark.parametrize("settings", WISHES, ids=str)
def test_as_a_sampler_that_sees_all_whatever_the_number_of_ranks(settings: SamplerSettings) -> None:
    random = np.random.default_rng(1)
    for position in range(12):
        logits = random.normal(0, random.choice([0.1, 1, 5]), 310).astype(np.float32)
        if position % 3 == 1:
            logits = np.round(logits)  # many ties
        elif position % 3 == 2:
            logits[random.integers(0, 310, 150)] = -np.inf
        expected = naive(logits, settings, position, 310)
        padded = np.append(logits, np.full(10, 99, np.float32))
        assert [sample(logits, settings, position, 310, n_ranks) for n_ranks in (1, 2, 4, 8)] == [expected] * 4
        if settings.has_nucleus or settings.keeps_few(310) or settings.is_greedy:
            found = [sample(padded, settings, position, 310, n_ranks) for n_ranks in (1, 2, 4, 8)]
            assert len(set(found)) == 1 and (position % 3 or found[0] == expected)


@pytest.mark.parametrize(("scale", "n_asked"), [(8, 0), (0.1, 1)])
def test_all_logits_are_asked_for_only_where_the_candidates_do_not_fill_the_nucleus(scale: float, n_asked: int) -> None:
    settings = SamplerSettings(temperature=0.8, top_p=0.9)
    logits = np.random.default_rng(2).normal(0, scale, 3000).astype(np.float32)
    scores = scores_of(logits, settings.ask(3000), n_ranks=2)
    sample_scores(scores, settings, 0)
    assert scores.rest.n_asked == n_asked


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
    assert ids(settings, 6, logits, 50000) == [27853, 9665, 18956, 25428, 41944, 30657]
    assert ids(SamplerSettings(temperature=0.8, seed=5), 3, logits, 50000) == [48997, 5244, 43207]
