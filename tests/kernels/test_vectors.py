# python -m pytest tests/kernels/test_vectors.py
import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dllama_py.blocks import Floats, widen_bf16
from dllama_py.kernels import reference
from dllama_py.kernels.program import argument, kernel
from dllama_py.kernels.team import Team
from dllama_py.kernels.vectors import get_f32, set_f32, widen_half_at, write_half
from dllama_py.kernels.words import Words
from tests.kernels import drive
from tests.kernels.conversions import narrowed, widened
from tests.kernels.samples import same_bits

ONE_THREAD = Team(1)


def check_narrowing(x: Floats) -> None:
    halves, bfloats, as_half, as_bfloat = narrowed(ONE_THREAD, x)
    assert same_bits(halves.view(np.float16).astype(np.float32), reference.round_f16(x))
    assert same_bits(as_half, reference.round_f16(x))
    assert same_bits(widen_bf16(bfloats), reference.round_bf16(x))
    assert same_bits(as_bfloat, reference.round_bf16(x))


def test_every_half_and_bfloat_widens_exactly() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    halves, bfloats = bits.view(np.float16).astype(np.float32), widen_bf16(bits)
    wide_halves, wide_bfloats = widened(ONE_THREAD, bits)
    assert (np.isnan(wide_halves) == np.isnan(halves)).all()
    numbers = ~np.isnan(halves)
    assert same_bits(wide_halves[numbers], halves[numbers])
    assert same_bits(wide_bfloats, bfloats)


def test_numbers_at_and_beside_the_middle_of_two_halves_are_narrowed_to_even() -> None:
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)  # subnormal ones too
    middles = (halves[:-1] + halves[1:]) / 2
    for x in (halves[:-1], middles, np.nextafter(middles, np.float32(0)), np.nextafter(middles, np.float32(1e9))):
        padded = np.pad(x, (0, -x.size % 16)).astype(np.float32)
        check_narrowing(padded)
        check_narrowing(-padded)


@given(arrays(np.float32, 16, elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_any_number_is_narrowed_as_numpy_does(x: Floats) -> None:
    check_narrowing(x)


class ThroughHalves(Words):
    X = "float32 [n]"
    HALVES = "uint16 [n]"
    BACK = "float32 [n]"
    N = "of x"


@kernel(ThroughHalves)
def through_scalar_halves(args: int, thread: int, threads: int) -> None:
    for i in range(argument(args, ThroughHalves.N)):
        half = argument(args, ThroughHalves.HALVES) + 2 * i
        write_half(half, get_f32(argument(args, ThroughHalves.X) + 4 * i))
        set_f32(argument(args, ThroughHalves.BACK) + 4 * i, widen_half_at(half))


def test_a_single_half_goes_the_way_of_sixteen() -> None:
    x = np.float32([0, -0.0, 1e-9, 2.0**-24, 3 * 2.0**-25, 1.0009765, -65519, 1e9])
    halves, back = np.zeros(x.size, np.float16), drive.untouched(x.size)
    drive.run(ONE_THREAD, through_scalar_halves(x=x, halves=halves, back=back, n=x.size))
    assert same_bits(back, reference.round_f16(x))


def test_every_nan_stays_a_nan_and_keeps_its_sign() -> None:
    upper = np.arange(0x7F80, 0x8000, dtype=np.uint32) << 16
    nans = np.concatenate([upper[1:] | lower for lower in (0, 1, 0x7FFF, 0x8000, 0xFFFF)] + [upper[:1] | 1])
    nans = np.pad(nans, (0, -nans.size % 16), "edge")
    for bits in (nans, nans | np.uint32(0x80000000)):
        halves, bfloats, *rounded = narrowed(ONE_THREAD, bits.view(np.float32))
        for narrow_bits, infinity in ((halves, 0x7C00), (bfloats, 0x7F80)):
            assert (narrow_bits & 0x7FFF > infinity).all()
            assert (narrow_bits >> 15 == bits >> 31).all()
        assert np.isnan(rounded).all()


def test_infinities_saturate_as_halves_and_stay_as_bfloats() -> None:
    halves, bfloats, *_ = narrowed(ONE_THREAD, np.float32([np.inf, -np.inf] * 8))
    assert halves.view(np.float16)[:2].tolist() == [65504, -65504]
    assert widen_bf16(bfloats)[:2].tolist() == [np.inf, -np.inf]
