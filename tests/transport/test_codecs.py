# python -m pytest tests/transport/test_codecs.py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.codecs import CODECS, round_bf16, round_q80
from tests.support.tree import ROUNDING, parts_of_ranks


@pytest.mark.parametrize("exchange", ["f32", "bf16", "q80"])
@given(seed=st.integers(0, 2**32))
def test_rounded_values_survive_the_wire(exchange: str, seed: int) -> None:
    codec = CODECS[exchange]
    (values,) = parts_of_ranks(1, 320, exchange, seed)
    wire = np.empty(codec.wire_bytes(320), np.uint8)
    codec.encode(values, wire)
    back = np.empty(320, np.float32)
    codec.decode(wire, back)
    assert back.tobytes() == values.tobytes()
    assert ROUNDING[exchange](values).tobytes() == values.tobytes()


def test_bf16_rounds_ties_to_even() -> None:
    values = np.array([0x3F808000, 0x3F818000, 0x3F808001, 0xBF80FFFF], np.uint32).view(np.float32)
    assert round_bf16(values).view(np.uint32).tolist() == [0x3F800000, 0x3F820000, 0x3F810000, 0xBF810000]


def test_q80_scale_is_rounded_to_half_after_the_codes() -> None:
    values = np.zeros(32, np.float32)
    values[:3] = 1000.0, -400.0, 3.0  # scale 7.8740, as a half 7.875; codes 127, -51, 0
    assert round_q80(values)[:4].tolist() == [1000.125, -401.625, 0.0, 0.0]


@pytest.mark.parametrize("tiny", [1e-45, 2.0**-126, 1e-7])
def test_a_block_too_small_for_a_half_scale_is_plain_zero(tiny: float) -> None:
    values = np.full(32, -tiny, np.float32)
    assert round_q80(values).tobytes() == bytes(128)


def test_wire_sizes() -> None:
    assert [CODECS[name].wire_bytes(64) for name in ("f32", "bf16", "q80")] == [256, 128, 68]
