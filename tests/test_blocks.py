# python -m pytest tests/test_blocks.py
"""Number formats: the definition against the gguf package and by its laws, the fast version against the definition."""

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dllama_py import codebook_blocks, k_blocks, plain_blocks
from dllama_py.blocks import FloatType, dequantize, quantize, widen_bf16
from dllama_py.kernels.quantize import quantize_rows, widen_rows
from tests.kernels.samples import EXPONENTS_AT, FINITE

PARTS_KNOWN = [*plain_blocks.PARTS, *k_blocks.PARTS, *codebook_blocks.PARTS]
WRITABLE = [FloatType.F32, FloatType.F16, FloatType.Q40, FloatType.Q80]
weights = arrays(
    np.float32,
    st.tuples(st.integers(1, 3), st.sampled_from([32, 64, 96])),
    elements=st.floats(-1e5, 1e5, width=32) | st.sampled_from([0.0, -0.0, 1.0, -1.0, 1e-40, 3e-39, -6e-8, 2.0**-14]),
)


def row(*values: float, n: int = 32) -> np.ndarray:
    """One row of n values: those given, then zeros."""
    return np.array([[*values, *[0.0] * (n - len(values))]], np.float32)


def as_bytes(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(np.uint8)


@pytest.mark.parametrize("kind", FloatType)
def test_sizes_are_those_of_ggml(kind):
    elements, size = gguf.GGML_QUANT_SIZES[Kind(kind.ggml_type)]
    assert (kind.block_elements, kind.block_bytes) == (elements, size)
    assert kind.name.replace("_", "") == Kind(kind.ggml_type).name.replace("_", "")
    assert FloatType.named(kind.label) is kind


def test_sizes_are_whole_blocks():
    assert FloatType.Q40.n_bytes(64) == 36
    with pytest.raises(ValueError, match="48 elements are not whole q80 blocks of 32"):
        FloatType.Q80.n_bytes(48)


@pytest.mark.parametrize("kind", PARTS_KNOWN, ids=lambda kind: kind.label)
@pytest.mark.parametrize("special", [None, 0x00, 0xFF, 0x80, 0x7F])
def test_dequantising_is_that_of_the_gguf_package(kind, special):
    """To the bit; blocks of random bytes, and of one byte throughout, with halves that are finite."""
    data = np.random.default_rng(1).integers(0, 256, (4, 3, kind.block_bytes), dtype=np.uint8)
    if special is not None:
        data[:] = special
    for place in EXPONENTS_AT.get(kind, [1]):
        data[..., place] &= FINITE
    data = data.reshape(4, -1)
    theirs = gguf.quants.dequantize(data, Kind(kind.ggml_type))
    np.testing.assert_array_equal(dequantize(data, kind).view(np.uint32), theirs.view(np.uint32))


def test_q80_is_that_of_the_gguf_package():
    """ggml's own rule, except for its ties, which random values do not have; q40 differs in the scale's sign rule."""
    x = np.random.default_rng(2).standard_normal((8, 256)).astype(np.float32)
    np.testing.assert_array_equal(quantize(x, FloatType.Q80), gguf.quants.quantize(x, Kind.Q8_0))


def test_q40_of_a_ramp():
    x = np.arange(-16, 16, dtype=np.float32)[None]  # the extreme is -16: scale 2, codes (x / 2) + 8.5
    data = quantize(x, FloatType.Q40)[0]
    assert data[:2].view(np.float16)[0] == 2.0
    assert (data[2:] & 15).tolist() == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8]
    assert (data[2:] >> 4).tolist() == [8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15, 15]


def test_q40_of_a_tie_takes_the_positive_one():
    for values in ((-4.0, 4.0), (4.0, -4.0)):
        data = quantize(row(*values), FloatType.Q40)[0]
        assert data[:2].view(np.float16)[0] == -0.5
    assert quantize(row(-4.0, 3.0), FloatType.Q40)[0, :2].view(np.float16)[0] == 0.5


def test_zero_blocks():
    assert quantize(row(), FloatType.Q40).tobytes() == b"\x00\x80" + b"\x88" * 16
    assert quantize(row(*[-0.0] * 32), FloatType.Q40).tobytes() == b"\x00\x00" + b"\x88" * 16
    assert quantize(row(*[-0.0] * 31), FloatType.Q40).tobytes() == b"\x00\x80" + b"\x88" * 16
    assert quantize(row(), FloatType.Q80).tobytes() == bytes(34)


def test_q80_rounds_half_to_even():
    codes = quantize(row(127.0, 0.5, 1.5, 2.5, -0.5, -1.5, -127.0), FloatType.Q80)[0, 2:].view(np.int8)
    assert codes[:7].tolist() == [127, 0, 2, 2, 0, -2, -127]


def test_bf16_is_the_upper_half_of_a_float():
    bits = np.array([0x3F80, 0xBF80, 0x4049, 0x7F80, 0x0001, 0x8000], np.uint16)
    assert widen_bf16(bits)[:4].tolist() == [1.0, -1.0, 3.140625, np.inf]
    assert widen_bf16(bits)[4] == np.float32(9.18355e-41) and np.signbit(widen_bf16(bits)[5])


@given(weights)
def test_a_value_comes_back_within_half_a_step(x):
    """The scale is stored as a half (2^-11, or 2^-25 where it is subnormal); q40 loses a step at the far end."""
    for kind, far, steps in ((FloatType.Q80, 127, 0.5), (FloatType.Q40, 8, 1.0)):
        step = np.abs(x.reshape(-1, 32)).max(axis=1, keepdims=True).astype(np.float64) / far
        error = np.abs(dequantize(quantize(x, kind), kind).astype(np.float64) - x).reshape(-1, 32)
        assert (error <= step * (steps + far * 2.0**-11) + far * 2.0**-25).all()


@given(weights)
def test_q40_is_within_half_a_step_away_from_its_far_end(x):
    blocks = x.reshape(-1, 32)
    step = np.abs(blocks).max(axis=1, keepdims=True).astype(np.float64) / 8
    near = np.abs(blocks) <= 7.5 * step
    error = np.abs(dequantize(quantize(x, FloatType.Q40), FloatType.Q40).astype(np.float64) - x).reshape(-1, 32)
    assert (error <= step * (0.5 + 8 * 2.0**-11) + 8 * 2.0**-25)[near].all()


@settings(max_examples=200)
@given(weights, st.sampled_from(WRITABLE), st.sampled_from([FloatType.F32, FloatType.F16, FloatType.BF16]))
def test_fast_equals_the_definition(x, target, source):
    if source is FloatType.BF16:
        data = as_bytes((x.view(np.uint32) >> 16).astype(np.uint16))
    else:
        data = as_bytes(np.clip(x, -6e4, 6e4).astype(np.float16) if source is FloatType.F16 else x)
    if target is FloatType.F16 and np.abs(x).max() > 6e4:
        return  # too large, see below
    np.testing.assert_array_equal(quantize_rows(data, source, target), quantize(dequantize(data, source), target))


@pytest.mark.parametrize("source", PARTS_KNOWN, ids=lambda kind: kind.label)
def test_fast_equals_the_definition_from_blocks(source):
    data = np.random.default_rng(3).integers(0, 60, (2, 2 * source.block_bytes * 256 // source.block_elements))
    data = data.astype(np.uint8)
    for target in WRITABLE:
        np.testing.assert_array_equal(quantize_rows(data, source, target), quantize(dequantize(data, source), target))


@pytest.mark.parametrize("source", [FloatType.F32, FloatType.F16, FloatType.BF16, FloatType.Q80])
def test_rows_of_a_file_may_lie_anywhere_and_be_read_only(source):
    aligned = np.random.default_rng(4).integers(0, 60, (2, source.n_bytes(64)), dtype=np.uint8)
    anywhere = np.frombuffer(b"x" + aligned.tobytes(), np.uint8)[1:].reshape(aligned.shape)
    for target in WRITABLE:
        np.testing.assert_array_equal(quantize_rows(anywhere, source, target), quantize_rows(aligned, source, target))


def test_every_half_is_widened_and_narrowed_exactly():
    halves = np.arange(65536, dtype=np.uint16).reshape(1, -1)
    floats = widen_rows(halves.view(np.uint8), FloatType.F16)
    np.testing.assert_array_equal(floats.view(np.uint32), halves.view(np.float16).astype(np.float32).view(np.uint32))
    finite = halves[np.isfinite(halves.view(np.float16))][None]
    narrowed = quantize_rows(finite.view(np.uint8), FloatType.F16, FloatType.F16)
    np.testing.assert_array_equal(narrowed, finite.view(np.uint8))


def test_halves_round_to_even_everywhere():
    """All floats that lie midway between two halves, and their neighbours."""
    halves = np.arange(0x7BFF, dtype=np.uint16).view(np.float16).astype(np.float64)
    middle = ((halves[1:] + halves[:-1]) / 2).astype(np.float32)
    x = np.stack([middle, np.nextafter(middle, np.float32(0)), np.nextafter(middle, np.float32(1e9)), -middle])
    np.testing.assert_array_equal(
        quantize_rows(as_bytes(x), FloatType.F32, FloatType.F16), as_bytes(x.astype(np.float16))
    )


@pytest.mark.parametrize("target", WRITABLE)
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("place", [0, 17, 63])
def test_what_is_not_finite_is_refused(target, bad, place):
    x = np.ones((2, 64), np.float32)
    x[1, place] = bad
    with pytest.raises(ValueError, match=f"infinite, not a number, or too large for {target.label}"):
        quantize_rows(as_bytes(x), FloatType.F32, target)


@pytest.mark.parametrize(
    ("target", "fits", "too_large"),
    [(FloatType.F16, 65519.0, 65520.0), (FloatType.Q40, -65504 * 8.0, 65520 * 8.0), (FloatType.Q80, 8e6, -8.4e6)],
)
def test_what_the_target_cannot_hold_is_refused(target, fits, too_large):
    assert np.isfinite(dequantize(quantize_rows(as_bytes(row(fits)), FloatType.F32, target), target)).all()
    with pytest.raises(ValueError, match="too large"):
        quantize_rows(as_bytes(row(too_large)), FloatType.F32, target)


def test_only_types_of_a_model_file_can_be_written():
    with pytest.raises(ValueError, match="cannot write q41; f32, f16, q40 and q80"):
        quantize_rows(as_bytes(row()), FloatType.F32, FloatType.Q41)
