# python -m pytest tests/planning/test_measuring.py
"""Ranks measure themselves: every type of the file, in terms of a plan, on any number of ranks."""

from dataclasses import replace

import pytest

from dllama_py.blocks import FloatType
from dllama_py.kernels.team import Team
from dllama_py.planning.measuring import Measured, alike, joined, measure, rank_speed, turns_of
from dllama_py.planning.probe import Rates
from dllama_py.planning.probe_products import Subject
from dllama_py.planning.speeds import KindSpeed, RankSpeed
from dllama_py.progress import unwatched
from dllama_py.sharding.plan import make_plan
from dllama_py.transport.comm import Comm
from tests.checkpoints import tiny_config
from tests.planning.households import kinds_of
from tests.support.threads import run_ranks


def test_rates_become_speeds() -> None:
    one = Rates({FloatType.Q40: 16e9}, {FloatType.Q40: 10e9}, 30e-6)
    many = Rates({FloatType.Q40: 3e9}, {FloatType.Q40: 2e9}, 30e-6 + 63 * 5e-6)
    speed = rank_speed(one, {FloatType.Q40: 12e9}, many, 0.001)
    assert speed.kinds[FloatType.Q40].bytes_per_s == 10e9
    assert speed.kinds[FloatType.Q40].macs_per_s == 64 * 3e9
    assert speed.kinds[FloatType.Q40].few_macs_per_s == 2 * 12e9
    assert (speed.layer_s, speed.step_s) == (30e-6, 0.001) and speed.row_layer_s == pytest.approx(5e-6)


def test_stages_that_are_alike_are_measured_by_the_first_of_them() -> None:
    assert alike("aab", [1, 1, 1], 3) == [0, 0, 2]
    assert alike("aab", [1, 2, 1], 3) == [0, 1, 2]
    assert alike("aaaa", [1, 1, 1, 1], 2) == [0, 1, 0, 1]
    assert alike("aaab", [1, 1, 1, 1], 2) == [0, 1, 2, 3]


def test_unlike_stages_of_a_host_take_turns_and_ranks_of_a_stage_do_not() -> None:
    assert turns_of("aab", 3, [0, 1, 2]) == [0, 1, 0]
    assert turns_of("aaa", 3, [0, 0, 2]) == [0, 0, 1]
    assert turns_of("aaab", 2, [0, 1, 2, 3]) == [0, 0, 1, 0]


def test_a_rank_is_as_fast_as_the_one_that_measured_for_it_and_as_crowded_as_its_like() -> None:
    alone = RankSpeed({FloatType.Q40: KindSpeed(10e9, 80e9), FloatType.F32: KindSpeed(9e9, 10e9)}, 1e-5, 1e-6, 1e-4)
    told = [
        {"speed": alone.as_json(), "busy": {"q40": 40e9, "f32": 7e9}},
        {"speed": None, "busy": {"q40": 40e9, "f32": 3e9}},
        {"speed": alone.as_json(), "busy": {}},
    ]
    assert joined(told, [0, 0, 2]) == (replace(alone, crowd=2.0), replace(alone, crowd=2.0), alone)


@pytest.mark.parametrize("n_ranks", [1, 3])
@pytest.mark.parametrize("name", ["tiny-qwen3", "tiny-qwen3moe"])
def test_all_ranks_measure_and_the_root_is_told(name: str, n_ranks: int) -> None:
    config = tiny_config(name)
    kinds = kinds_of(config) | {"layers.1.v": FloatType.Q80}

    def work(comm: Comm) -> Measured:
        team = Team(1)
        try:
            return measure(comm, Subject(config, make_plan(config, 1)[0], kinds, True), n_ranks, team, unwatched)
        finally:
            team.close()

    root, *others = run_ranks(n_ranks, work)
    assert len(root.speeds) == n_ranks and all(other.speeds == () for other in others)
    assert len(root.links) == n_ranks and all(len(row) == n_ranks for row in root.links)
    expected = {FloatType.Q40, FloatType.Q80} | ({FloatType.F32} if config.n_experts else set())
    for speed in root.speeds:
        assert set(speed.kinds) == expected
        assert all(kind.bytes_per_s > 0 and kind.macs_per_s > 0 for kind in speed.kinds.values())
        assert speed.layer_s > 0 and speed.step_s > 0 and speed.wake_s >= 0
