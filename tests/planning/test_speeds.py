# python -m pytest tests/planning/test_speeds.py
"""Seconds of products: what one row, many rows and the experts of a mixture take."""

import json
from dataclasses import replace

import pytest

from dllama_py.blocks import FloatType
from dllama_py.planning.sizes import PartSizes, Product
from dllama_py.planning.speeds import KindSpeed, RankSpeed, part_s

SPEED = RankSpeed({FloatType.Q40: KindSpeed(10e9, 100e9)}, 20e-6, 10e-6, 0.5e-3)


def seconds(product: Product, n_rows: int) -> float:
    return part_s(PartSizes((product,), 0), SPEED, n_rows)


def test_one_row_waits_for_memory_and_many_for_arithmetic() -> None:
    dense = Product(FloatType.Q40, 10_000_000, 16_000_000)
    assert seconds(dense, 1) == pytest.approx(0.001)
    assert seconds(dense, 64) == pytest.approx(64 * 16e6 / 100e9)
    assert seconds(dense, 127) == pytest.approx(0.001 + 2 * (64 * 16e6 / 100e9 - 0.001))


def test_few_rows_have_kernels_of_their_own() -> None:
    dense = PartSizes((Product(FloatType.Q40, 10_000_000, 16_000_000),), 0)
    speed = replace(SPEED, kinds={FloatType.Q40: KindSpeed(10e9, 100e9, 20e9)})
    found = [part_s(dense, speed, n_rows) for n_rows in (1, 2, 33, 64)]
    assert found == pytest.approx([0.001, 0.0016, 0.0016 + (0.01024 - 0.0016) / 2, 0.01024])


def test_experts() -> None:
    experts = Product(FloatType.Q40, 10_000_000, 16_000_000, n_experts=8, n_active=2)
    assert seconds(experts, 1) == pytest.approx(2 * 0.001)
    many = seconds(experts, 256)  # all experts are read, each by 64 rows
    assert many == pytest.approx(8 * 64 * 16e6 / 100e9, rel=1e-6)


def test_speeds_travel_as_json() -> None:
    fields = SPEED.as_json()
    assert RankSpeed.from_json(json.loads(json.dumps(fields))) == SPEED
    assert fields == {
        "kinds": {"q40": [10e9, 100e9, None]},
        "layer_s": 2e-5,
        "row_layer_s": 1e-5,
        "step_s": 0.0005,
        "crowd": 1.0,
        "wake_s": 0.0,
    }
