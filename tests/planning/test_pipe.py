# python -m pytest tests/planning/test_pipe.py
"""When jobs are through a row of stages that have cores of their own, or share them."""

import numpy as np
import pytest
from numpy.typing import NDArray

from dllama_py.planning.pipe import Pipe, Slowdown, one_after_another, round_s


def on_cores(n_cores: int) -> Slowdown:
    """Stages of one host, of one thread each."""

    def slowdown(active: NDArray[np.intp]) -> NDArray[np.float64]:
        return np.full(len(active), max(len(active) / n_cores, 1.0))

    return slowdown


def test_the_slowest_stage_sets_the_pace_once_the_pipe_is_full() -> None:
    pipe = Pipe((2.0, 3.0, 1.0), (0.5, 0.5), on_cores(3))
    assert one_after_another(pipe, 4) == pytest.approx([7.0, 10.0, 13.0, 16.0])
    assert one_after_another(Pipe((2.0,), (), on_cores(1)), 3) == pytest.approx([2.0, 4.0, 6.0])


def test_a_slow_way_sets_the_pace_as_well() -> None:
    assert one_after_another(Pipe((1.0, 1.0), (4.0,), on_cores(2)), 3) == pytest.approx([6.0, 10.0, 14.0])


def test_stages_that_share_cores_are_slow_only_while_they_work_at_once() -> None:
    one_core = Pipe((1.0, 1.0), (0.0,), on_cores(1))
    assert one_after_another(one_core, 3) == pytest.approx([3.0, 5.0, 6.0])  # all work there is, one after the other
    ends = one_after_another(Pipe((1.0, 1.0, 1.0), (0.0, 0.0), on_cores(2)), 8)
    assert ends[0] == pytest.approx(3.5) and ends[4] - ends[3] == pytest.approx(1.5)
    assert 24 / 2 < ends[-1] < 10 * 1.5  # no core is idle but at the ends; not all stages are at work all the time


def test_jobs_that_come_again_wait_for_their_answer_or_for_the_slowest_stage() -> None:
    pipe = Pipe((2.0, 3.0), (0.5,), on_cores(2))
    assert round_s(pipe, 1, 1.5) == pytest.approx(7.0)
    assert round_s(pipe, 2, 1.5) == pytest.approx(7.0)
    assert round_s(pipe, 3, 1.5) == pytest.approx(9.0)
    assert round_s(Pipe((2.0, 3.0), (0.5,), on_cores(1)), 2, 0.0) == pytest.approx(10.0)


def test_a_stage_without_work_is_passed_at_once() -> None:
    assert one_after_another(Pipe((0.0, 2.0), (1.0,), on_cores(1)), 2) == pytest.approx([3.0, 5.0])
