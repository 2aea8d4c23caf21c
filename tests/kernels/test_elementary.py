# python -m pytest tests/kernels/test_elementary.py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dllama_py.blocks import Floats
from dllama_py.kernels import elementary, reference
from dllama_py.kernels.program import argument, kernel
from dllama_py.kernels.team import Team
from dllama_py.kernels.vectors import load_f32, store_f32
from dllama_py.kernels.words import Words
from tests.kernels import drive
from tests.kernels.samples import same_bits

ONE_THREAD = Team(1)


class Exp(Words):
    X = "float32 [n]"
    OUT = "float32 [n]"
    N = "a multiple of 16"


@kernel(Exp)
def exp_of_all(args: int, thread: int, threads: int) -> None:
    for i in range(0, 4 * argument(args, Exp.N), 64):
        store_f32(argument(args, Exp.OUT) + i, elementary.exp(load_f32(argument(args, Exp.X) + i)))


def fast_exp(x: Floats) -> Floats:
    out = drive.untouched(x.size)
    drive.run(ONE_THREAD, exp_of_all(x=x, out=out, n=x.size))
    return out


def slow_exp(x: Floats) -> Floats:
    return np.array([reference.exp_of(v) for v in x], np.float32)


@given(arrays(np.float32, 16, elements=st.floats(width=32, allow_nan=False)))
def test_exp_equals_the_reference(x: Floats) -> None:
    assert same_bits(fast_exp(x), slow_exp(x))


def test_exp_is_exact_to_two_units_in_the_last_place() -> None:
    x = np.linspace(-87, 88, 1 << 20, dtype=np.float32)
    true = np.exp(x.astype(np.float64))
    assert np.abs(fast_exp(x) / true - 1).max() < 1.2e-7


def test_exp_saturates() -> None:
    x = np.array([-np.inf, -1e30, -87.1, -87, 88, 88.1, 1e30, np.inf] * 2, np.float32)
    low, high = reference.exp_of(np.float32(-87)), reference.exp_of(np.float32(88))
    assert same_bits(fast_exp(x), np.array([low] * 4 + [high] * 4 + [low] * 4 + [high] * 4, np.float32))
    assert low == pytest.approx(np.exp(-87.0), rel=1e-6)


def test_exp_of_zero_is_one() -> None:
    assert fast_exp(np.array([0.0, -0.0] * 8, np.float32)).tolist() == [1.0] * 16


def test_silu_follows_float64() -> None:
    x = np.linspace(-80, 80, 100_001, dtype=np.float32)
    true = x / (1 + np.exp(-x.astype(np.float64)))
    assert np.allclose(reference.gated(x, np.ones_like(x)), true, rtol=3e-7, atol=0)


def test_silu_of_extremes_is_zero_or_the_value() -> None:
    x = np.array([-1e30, -1000, 1000, 1e30], np.float32)
    result = reference.gated(x, np.ones_like(x))
    assert abs(result[0]) < 1e-7 and abs(result[1]) < 1e-34
    assert result[2:].tolist() == x[2:].tolist()


def test_gelu_follows_its_tanh_form_in_float64() -> None:
    x = np.linspace(-9, 80, 100_001, dtype=np.float32)
    y = x.astype(np.float64)
    true = y / (1 + np.exp(-2 * np.sqrt(2 / np.pi) * (y + 0.044715 * y**3)))
    assert np.allclose(reference.gelu_gated(x, np.ones_like(x)), true, rtol=1e-5, atol=0)
    near = np.abs(x) < 2
    assert np.allclose(reference.gelu_gated(x[near], np.ones_like(x[near])), true[near], rtol=1e-6, atol=0)
    assert reference.gelu_gated(np.float32([1.0]), np.float32([2.0]))[0] == pytest.approx(1.682384, rel=1e-6)


def test_gelu_of_extremes_is_zero_or_the_value() -> None:
    x = np.array([-1e30, -1000, 1000, 1e30], np.float32)
    result = reference.gelu_gated(x, np.ones_like(x))
    assert abs(result[0]) < 1e-7 and abs(result[1]) < 1e-34
    assert result[2:].tolist() == x[2:].tolist()


def test_the_clamped_swiglu_follows_float64() -> None:
    gate, up = np.linspace(-30, 30, 10_001, dtype=np.float32), np.linspace(20, -20, 10_001, dtype=np.float32)
    g, u = np.minimum(gate.astype(np.float64), 7), np.clip(up.astype(np.float64), -7, 7)
    true = (u + 1) * g / (1 + np.exp(-1.702 * g))
    assert np.allclose(reference.clamped_swiglu(gate, up), true, rtol=1e-5, atol=1e-12)
