# python -m pytest tests/kernels/test_attention.py
import numpy as np
import pytest

from dllama_py.blocks import Floats
from dllama_py.kernels import reference
from dllama_py.kernels.reference_attention import attention
from dllama_py.kernels.team import Team
from tests.kernels.paged import PLAIN, PagedCache, Row, Sight, attend
from tests.kernels.samples import random, same_bits

TABLES = [[5, 1, 3], [0, 4, 2]]  # pages of two slots, in no order
CACHES = pytest.mark.parametrize("half", [True, False], ids=["f16", "f32"])


def histories(n_positions: int, kv_heads: int, width: int, half: bool) -> tuple[Floats, Floats]:
    """Keys and values of two slots, float32 [2, S, K, E]."""
    k, v = random(2, n_positions, kv_heads, width, seed=2), random(2, n_positions, kv_heads, width, seed=3)
    return (reference.round_f16(k), reference.round_f16(v)) if half else (k, v)


def filled(k: Floats, v: Floats, half: bool, tables: list[list[int]] = TABLES) -> PagedCache:
    cache = PagedCache.empty(tables, k.shape[2], k.shape[3], half)
    for slot in range(len(k)):
        cache.fill(slot, k[slot], v[slot])
    return cache


def expected(q: Floats, k: Floats, v: Floats, rows: list[Row], sight: Sight = PLAIN) -> Floats:
    seen = sight.scale, sight.window, sight.sinks
    return np.stack([attention(q[i], k[s, : p + 1], v[s, : p + 1], *seen) for i, (s, p) in enumerate(rows)])


@CACHES
@pytest.mark.parametrize("group", [1, 2, 3, 9])
@pytest.mark.parametrize("width", [16, 32, 64, 128, 256])
def test_one_row_equals_the_reference(team: Team, half: bool, group: int, width: int) -> None:
    k, v = histories(70, 2, width, half)
    q, rows = random(1, 2 * group, width), [(1, 69)]
    result = attend(team, filled(k, v, half), q, rows, [0, group, 2 * group])
    assert same_bits(result, expected(q, k, v, rows))


@CACHES
@pytest.mark.parametrize("position", [0, 1, 15, 16, 62, 63, 64, 65, 126, 127, 128, 129])
def test_rows_around_page_borders_equal_the_reference(team: Team, half: bool, position: int) -> None:
    k, v = histories(130, 1, 32, half)
    q, rows = 8 * random(1, 3, 32), [(0, position)]
    assert same_bits(attend(team, filled(k, v, half), q, rows, [0, 3]), expected(q, k, v, rows))


@CACHES
@pytest.mark.parametrize("group", [1, 3, 8])
def test_a_step_of_several_slots_equals_the_reference(team: Team, half: bool, group: int) -> None:
    k, v = histories(130, 2, 32, half)
    rows = [(0, 61), (0, 62), (0, 63), (0, 64), (1, 128), (1, 129), (0, 3), (1, 0), (1, 1)]
    q = random(len(rows), 2 * group, 32)
    result = attend(team, filled(k, v, half), q, rows, [0, group, 2 * group])
    assert same_bits(result, expected(q, k, v, rows))


def test_a_row_does_not_know_its_neighbours(team: Team) -> None:
    k, v = histories(130, 2, 32, half=True)
    cache, q = filled(k, v, half=True), random(12, 4, 32)
    rows = [(0, 60 + i) for i in range(10)] + [(1, 5), (1, 129)]
    together = attend(team, cache, q, rows, [0, 2, 4])
    for i, row in enumerate(rows):
        assert same_bits(attend(team, cache, q[i : i + 1], [row], [0, 2, 4])[0], together[i])


def test_slots_may_share_pages(team: Team) -> None:
    k, v = histories(130, 1, 32, half=False)
    k[1, :64], v[1, :64] = k[0, :64], v[0, :64]
    cache = filled(k, v, half=False, tables=[[5, 1, 3], [5, 4, 2]])
    q, rows = random(2, 2, 32), [(0, 100), (1, 100)]
    assert same_bits(attend(team, cache, q, rows, [0, 2]), expected(q, k, v, rows))


def test_kv_heads_may_have_uneven_numbers_of_query_heads(team: Team) -> None:
    k, v = histories(40, 3, 32, half=True)
    q, rows = random(2, 4, 32), [(0, 39), (1, 20)]
    result = attend(team, filled(k, v, half=True), q, rows, [0, 3, 3, 4])
    of_first = expected(q[:, :3], k[:, :, :1], v[:, :, :1], rows)
    of_last = expected(q[:, 3:], k[:, :, 2:], v[:, :, 2:], rows)
    assert same_bits(result, np.concatenate([of_first, of_last], axis=1))


@CACHES
def test_one_score_that_outweighs_all_others_picks_its_value(team: Team, half: bool) -> None:
    k, v = histories(70, 1, 32, half)
    k[0, 66] = 100
    q, rows = np.full((1, 1, 32), 100, np.float32), [(0, 69)]
    result = attend(team, filled(k, v, half), q, rows, [0, 1])
    assert same_bits(result, expected(q, k, v, rows))
    assert np.allclose(result[0, 0], v[0, 66, 0], rtol=0, atol=1e-6)


@CACHES
@pytest.mark.parametrize("window", [1, 2, 15, 16, 63, 64, 65, 100, 128, 129, 500])
@pytest.mark.parametrize("group", [1, 3, 8])
def test_windows_around_page_borders_equal_the_reference(team: Team, half: bool, window: int, group: int) -> None:
    k, v = histories(190, 2, 32, half)
    rows = [(0, p) for p in (0, 62, 63, 64, 127, 128, 188, 189)] + [(1, 100), (1, 101)]
    q, sight = 8 * random(len(rows), 2 * group, 32), Sight(window)
    result = attend(team, filled(k, v, half), q, rows, [0, group, 2 * group], sight)
    assert same_bits(result, expected(q, k, v, rows, sight))


def test_a_window_hides_what_lies_before_it(team: Team) -> None:
    k, v = histories(190, 1, 32, half=True)
    q, rows, sight = random(2, 2, 32), [(0, 150), (0, 189)], Sight(70)
    result = attend(team, filled(k, v, half=True), q, rows, [0, 2], sight)
    k[0, :81], v[0, :81] = 30, -30
    assert same_bits(attend(team, filled(k, v, half=True), q, rows, [0, 2], sight), result)
    v[0, 81] = -30
    assert not same_bits(attend(team, filled(k, v, half=True), q, rows, [0, 2], sight)[0], result[0])


def test_a_row_with_a_window_does_not_know_its_neighbours(team: Team) -> None:
    k, v = histories(190, 2, 32, half=True)
    cache, q, sight = filled(k, v, half=True), random(12, 4, 32), Sight(67, sinks=random(4, seed=9))
    rows = [(0, 120 + i) for i in range(10)] + [(1, 5), (1, 129)]
    together = attend(team, cache, q, rows, [0, 2, 4], sight)
    for i, row in enumerate(rows):
        assert same_bits(attend(team, cache, q[i : i + 1], [row], [0, 2, 4], sight)[0], together[i])


@CACHES
@pytest.mark.parametrize("window", [0, 20])
def test_sinks_equal_the_reference(team: Team, half: bool, window: int) -> None:
    k, v = histories(130, 2, 64, half)
    q, rows = random(3, 6, 64), [(0, 0), (0, 129), (1, 64)]
    sight = Sight(window, sinks=np.array([-100, -1, 0, 0.5, 3, 100], np.float32))
    result = attend(team, filled(k, v, half), q, rows, [0, 3, 6], sight)
    assert same_bits(result, expected(q, k, v, rows, sight))
    assert np.abs(result[:, 5]).max() < 1e-30  # the sink takes all of the weight


def test_a_sink_is_a_score_without_a_value(team: Team) -> None:
    k, v = histories(1, 1, 32, half=False)
    q, sight = random(1, 2, 32), Sight(sinks=np.array([0.25, -2], np.float32))
    result = attend(team, filled(k, v, half=False), q, [(0, 0)], [0, 2], sight)
    scores = q[0].astype(np.float64) @ k[0, 0, 0] / np.sqrt(32)
    shares = np.exp(scores) / (np.exp(scores) + np.exp(sight.sinks.astype(np.float64)))  # [H]
    assert np.allclose(result[0], shares[:, None] * v[0, 0, 0], rtol=1e-5, atol=0)


def test_scores_may_have_another_scale(team: Team) -> None:
    k, v = histories(70, 1, 256, half=True)
    q, rows, sight = random(1, 2, 256), [(0, 69)], Sight(scale=np.float32(168.0**-0.5))
    assert same_bits(attend(team, filled(k, v, half=True), q, rows, [0, 2], sight), expected(q, k, v, rows, sight))


@pytest.mark.parametrize("n_rows", [1, 2, 5])
@pytest.mark.parametrize("groups", [[0, 1], [0, 4], [0, 3, 6, 9]])
def test_threads_share_the_query_heads_of_a_kv_head(n_rows: int, groups: list[int]) -> None:
    k, v = histories(70, len(groups) - 1, 32, half=True)
    q, rows = random(n_rows, groups[-1], 32), [(0, 60 + i) for i in range(n_rows)]
    for n_threads in (3, 8):
        team = Team(n_threads)
        result = attend(team, filled(k, v, half=True), q, rows, groups)
        team.close()
        assert same_bits(result, expected(q, k, v, rows))
