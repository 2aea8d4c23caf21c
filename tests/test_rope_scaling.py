# python -m pytest tests/test_rope_scaling.py
from dataclasses import replace

import pytest

from dllama_py.config import ModelConfig
from dllama_py.rope_scaling import LinearScaling, Llama3Scaling, RopeScaling, YarnScaling, yarn_magnitude
from tests.checkpoints import tiny_config

QWEN2_5 = YarnScaling(factor=4.0, original_context=32768, magnitude=1.1386294361119891)


def test_yarn_magnitudes() -> None:
    assert yarn_magnitude(4.0) == 1.1386294361119891  # of Qwen2.5
    assert yarn_magnitude(32.0) == 1.3465735902799727  # of gpt-oss
    assert yarn_magnitude(40.0, 0.707) == pytest.approx(1.26080378, abs=1e-8)  # of DeepSeek-V2
    assert yarn_magnitude(1.0) == 1.0


def test_yarn_of_qwen2_5() -> None:
    """Pairs 0 to 23 are kept, from 40 on all are slowed; 24 to 39 in equal steps of frequency."""
    factors = [float(1 / divisor) for divisor in QWEN2_5.divisors(1e6, 128)]
    assert factors[:24] == [1.0] * 24
    assert factors[24:40] == pytest.approx([1 - 0.75 * step / 17 for step in range(1, 17)], rel=1e-12)
    assert factors[40:] == [0.25] * 24


def test_yarn_of_gpt_oss_does_not_round_to_whole_pairs() -> None:
    scaling = YarnScaling(32.0, 4096, yarn_magnitude(32.0), truncate=False)
    factors = [float(1 / divisor) for divisor in scaling.divisors(150000.0, 64)]
    first, last = 8.0927791, 17.3980245  # 64 ln(4096 / (2 pi beta)) / (2 ln 150000), beta 32 and 1
    assert factors[:9] == [1.0] * 9
    assert factors[9] == pytest.approx(1 - 31 / 32 * (9 - first) / (last - first), rel=1e-6)
    assert factors[17] == pytest.approx(1 - 31 / 32 * (17 - first) / (last - first), rel=1e-6)
    assert factors[18:] == [1 / 32] * 14


def test_a_ramp_between_two_borders_that_are_one() -> None:
    scaling = YarnScaling(2.0, 6, 1.0)  # less than a turn of any pair
    assert [float(divisor) for divisor in scaling.divisors(10000.0, 16)] == [1.0] + [2.0] * 7


def test_linear_divides_all_alike() -> None:
    assert [float(divisor) for divisor in LinearScaling(2.5).divisors(10000.0, 8)] == [2.5] * 4


@pytest.mark.parametrize("scaling", [None, LinearScaling(4.0), Llama3Scaling(8.0, 1.0, 4.0, 8192), QWEN2_5])
def test_a_scaling_travels_with_the_config(scaling: RopeScaling | None) -> None:
    config = replace(tiny_config(), rope_scaling=scaling)
    assert ModelConfig.from_json(config.to_json()) == config
