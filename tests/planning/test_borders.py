# python -m pytest tests/planning/test_borders.py
"""Borders of stages against all ways there are, and cases whose answer is plain."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dllama_py.planning.borders import NEARLY, choose, fastest_with
from dllama_py.planning.paths import StageTimes, fastest, ranges


def times(
    layer_s: list[float],
    n_layers: int,
    *,
    head_s: float = 0.0,
    rooms: list[int] | None = None,
    hop_s: float = 0.0,
) -> StageTimes:
    """Stages whose layers take so long each; `rooms`: layers that a stage can hold; the root is the first stage."""
    n = len(layer_s)
    decode, prefill = (np.full((n, n_layers + 1, n_layers + 1), np.inf) for _ in range(2))
    for stage, first, stop in itertools.product(range(n), range(n_layers), range(1, n_layers + 1)):
        if 0 < stop - first <= (rooms[stage] if rooms else n_layers):
            prefill[stage, first, stop] = (stop - first) * layer_s[stage]
            decode[stage, first, stop] = prefill[stage, first, stop] + head_s * (stop == n_layers)
    ends = np.array([0.0] + [hop_s] * (n - 1))
    return StageTimes(decode, prefill, np.full((n, n), hop_s), ends, ends)


def all_counts(n_stages: int, n_layers: int) -> list[tuple[int, ...]]:
    return [counts for counts in itertools.product(range(n_layers + 1), repeat=n_stages) if sum(counts) == n_layers]


def measures(found: StageTimes, counts: tuple[int, ...], n_sequences: int) -> tuple[float, float, int, int, float]:
    way_s = found.token_s(counts)
    token_s = max(found.slowest_s(counts, found.decode_s), way_s / n_sequences)
    return token_s, found.slowest_s(counts, found.prefill_s), len(ranges(counts)), max(counts), way_s


def best_by_trying(found: StageTimes, n_sequences: int) -> tuple[float, ...] | None:
    """The rules of borders.py, taken by their word."""
    ways = [measures(found, counts, n_sequences) for counts in all_counts(found.n_stages, found.n_layers)]
    ways = [way for way in ways if np.isfinite(way[0])]
    for rule, forgives in ((0, NEARLY), (1, NEARLY), (2, 1.0), (3, 1.0)):
        least = min((way[rule] for way in ways), default=0.0)
        ways = [way for way in ways if way[rule] <= least * forgives * (1 + 1e-9)]
    return min(ways, key=lambda way: way[4], default=None)


@settings(max_examples=150)
@given(st.data())
def test_no_way_is_better(data: st.DataObject) -> None:
    n_stages, n_layers = data.draw(st.integers(1, 4)), data.draw(st.integers(1, 6))
    tenths = st.integers(1, 40).map(lambda tenth: tenth / 10)
    shape = (n_stages, n_layers + 1, n_layers + 1)
    found = times(
        data.draw(st.lists(tenths, min_size=n_stages, max_size=n_stages)),
        n_layers,
        head_s=data.draw(tenths),
        rooms=data.draw(st.lists(st.integers(0, n_layers), min_size=n_stages, max_size=n_stages)),
        hop_s=data.draw(tenths) / 10,
    )
    uneven = np.array(data.draw(st.lists(tenths, min_size=n_layers + 1, max_size=n_layers + 1)))
    found = StageTimes(
        found.decode_s * np.broadcast_to(uneven, shape), found.prefill_s, found.hops_s, found.arrive_s, found.answer_s
    )
    n_sequences = data.draw(st.integers(1, 3))
    chosen, best = choose(found, n_sequences), best_by_trying(found, n_sequences)
    assert (chosen is None) == (best is None)
    if chosen is not None and best is not None:
        assert np.allclose(measures(found, chosen, n_sequences), best, rtol=1e-6)


def test_equal_stages_for_equal_machines() -> None:
    for n_layers, each in ((28, 7), (56, 14), (32, 8), (48, 12)):
        assert choose(times([0.01] * 4, n_layers, head_s=0.05, hop_s=0.0001)) == (each,) * 4
    assert choose(times([0.01] * 39, 78, head_s=0.1, hop_s=0.0002)) == (2,) * 39


def test_nearly_equal_machines_count_as_equal() -> None:
    assert choose(times([0.0100, 0.0104], 28)) == (14, 14)


def test_a_machine_that_costs_a_token_too_much_is_left_out() -> None:
    found = times([0.010, 0.050, 0.010], 10, hop_s=0.001)
    assert choose(found) == (5, 0, 5)
    assert round(fastest_with(found, [1]), 4) == 0.1410 + 0.001  # 8 fast layers, a slow one, two hops and the answer


def test_a_way_through_stages_that_must_be_used() -> None:
    found = times([0.010, 0.020, 0.030], 10, rooms=[9, 9, 0], hop_s=0.001)
    assert round(fastest_with(found, [0, 1]), 4) == 9 * 0.010 + 0.020 + 2 * 0.001
    assert fastest_with(found, [0, 2]) == np.inf


def test_memory_sends_layers_to_a_slow_machine_and_no_more_than_it_must() -> None:
    assert choose(times([0.010, 0.050], 10, rooms=[7, 10])) == (7, 3)


def test_several_sequences_share_by_speed() -> None:
    unlike = times([0.010, 0.020], 30)
    assert choose(unlike) == (30, 0)
    assert choose(unlike, n_sequences=4) == (20, 10)


def test_a_machine_that_speeds_nothing_up_is_left_out() -> None:
    assert choose(times([0.01] * 4, 5)) == (2, 2, 1, 0)


def test_nothing_fits() -> None:
    assert choose(times([0.01, 0.01], 9, rooms=[4, 4])) is None


def test_the_fastest_way_is_told_with_its_time() -> None:
    ways = fastest(times([0.02, 0.01], 4, rooms=[4, 3], hop_s=0.001), np.ones((2, 5, 5), bool))
    assert ways.counts() == (1, 3) and round(ways.seconds[0], 6) == 0.052
