# python -m pytest tests/engine/test_draft_length.py
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllama_py.engine.draft_length import STALE_STEPS, Chances, StepTimes, best_length

chances = st.lists(st.floats(0, 1), max_size=8)


def test_rows_that_cost_nothing_are_all_checked() -> None:
    assert best_length([0.1, 0.1, 0.1], [1.0, 1.0, 1.0, 1.0]) == 3


def test_rows_that_cost_as_much_as_steps_are_not_checked() -> None:
    assert best_length([0.9, 0.9], [1.0, 2.0, 3.0]) == 0


def test_the_length_of_most_ids_a_second_is_chosen() -> None:
    """Ids expected: 1, 1.5, 1.75, 1.875; a second: 1, 1.36, 1.46, 1.34."""
    assert best_length([0.5, 0.5, 0.5], [1.0, 1.1, 1.2, 1.4]) == 2


def test_a_dear_second_row_is_borne_for_the_rows_behind_it() -> None:
    """Ids a second: 1, 0.95, 1.35, 1.7."""
    assert best_length([0.9, 0.9, 0.9], [1.0, 2.0, 2.01, 2.02]) == 3


def test_a_gain_that_may_be_an_error_of_measurement_is_left() -> None:
    assert best_length([0.02], [1.0, 1.0]) == 0
    assert best_length([0.04], [1.0, 1.0]) == 1


@given(chances, st.floats(1e-6, 10), st.floats(0, 1))
def test_never_longer_than_the_guesses(found: list[float], plain_s: float, share: float) -> None:
    step_s = [plain_s * (1 + share * n) for n in range(len(found) + 1)]
    assert 0 <= best_length(found, step_s) <= len(found)


def test_opinions_hold_until_something_was_seen() -> None:
    seen = Chances()
    assert seen.of(0.75) == 0.75
    for _ in range(100):
        seen.observe(0.75, is_right=False)
    assert seen.of(0.75) == pytest.approx(1.5 / 102)
    assert seen.of(0.25) == 0.25, "of other opinions nothing was seen"
    assert seen.usual() == pytest.approx(1.4 / 102)


def test_what_was_seen_fades() -> None:
    seen = Chances()
    for _ in range(20):
        seen.observe(0.5, is_right=False)
    assert seen.of(0.5) < 0.05
    for _ in range(500):
        seen.pass_token()
    assert seen.of(0.5) == pytest.approx(0.5, abs=0.05)


def test_an_opinion_of_one_has_a_place() -> None:
    seen = Chances()
    seen.observe(1.0, is_right=True)
    assert seen.of(1.0) == 1.0


def test_between_measured_steps_a_line_and_beyond_them_a_guess() -> None:
    times = StepTimes()
    times.observe(1, 1.0)
    assert times.up_to(3) == pytest.approx([1.0, 1.05, 1.1])
    times.observe(5, 2.0)
    assert times.up_to(7) == pytest.approx([1.0, 1.25, 1.5, 1.75, 2.0, 2.05, 2.1])
    assert times.up_to(2) == pytest.approx([1.0, 1.25])


def test_one_stray_measurement_moves_little() -> None:
    times = StepTimes()
    times.observe(1, 1.0)
    times.observe(1, 1000.0)
    assert times.plain_s == pytest.approx(1.2)


def test_old_measurements_are_forgotten() -> None:
    times = StepTimes()
    times.observe(1, 1.0)
    times.observe(4, 9.0)
    for _ in range(STALE_STEPS):
        times.pass_step()
        times.observe(1, 1.0)
    assert times.up_to(4) == pytest.approx([1.0, 1.05, 1.1, 1.15])


def test_nothing_is_known_before_a_plain_step() -> None:
    assert StepTimes().plain_s is None
