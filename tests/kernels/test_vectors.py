# python -m pytest tests/kernels/test_vectors.py
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dllama_py.blocks import Floats, widen_bf16
from dllama_py.kernels import reference
from dllama_py.kernels.program import argument, kernel
from dllama_py.kernels.team import Team
from dllama_py.kernels.vectors import (
    get_f32,
    load_bf16,
    load_f16,
    load_f32,
    round_bf16,
    round_f16,
    set_f32,
    store_bf16,
    store_f16,
    store_f32,
    widen_half_at,
    write_half,
)
from tests.kernels import drive
from tests.kernels.samples import same_bits

ONE_THREAD = Team(1)


@kernel
def widen(args: int, thread: int, threads: int) -> None:
    """Words: halves [n], bfloats [n], n, both as float32 [n]."""
    for i in range(0, argument(args, 2), 16):
        store_f32(argument(args, 3) + 4 * i, load_f16(argument(args, 0) + 2 * i))
        store_f32(argument(args, 4) + 4 * i, load_bf16(argument(args, 1) + 2 * i))


@kernel
def narrow(args: int, thread: int, threads: int) -> None:
    """Words: x float32 [n], n, halves [n], bfloats [n], x rounded to halves and to bfloats, float32 [n]."""
    for i in range(0, argument(args, 1), 16):
        x = load_f32(argument(args, 0) + 4 * i)
        store_f16(argument(args, 2) + 2 * i, x)
        store_bf16(argument(args, 3) + 2 * i, x)
        store_f32(argument(args, 4) + 4 * i, round_f16(x))
        store_f32(argument(args, 5) + 4 * i, round_bf16(x))


def check_narrowing(x: Floats) -> None:
    halves, bfloats = np.zeros(x.size, np.float16), np.zeros(x.size, np.uint16)
    as_half, as_bfloat = drive.untouched(x.size), drive.untouched(x.size)
    drive.run(ONE_THREAD, narrow(x, x.size, halves, bfloats, as_half, as_bfloat))
    assert same_bits(halves.astype(np.float32), reference.round_f16(x))
    assert same_bits(as_half, reference.round_f16(x))
    assert same_bits(widen_bf16(bfloats), reference.round_bf16(x))
    assert same_bits(as_bfloat, reference.round_bf16(x))


def test_every_half_and_bfloat_widens_exactly() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    halves, bfloats = bits.view(np.float16).astype(np.float32), widen_bf16(bits)
    wide_halves, wide_bfloats = drive.untouched(65536), drive.untouched(65536)
    drive.run(ONE_THREAD, widen(bits, bits, 65536, wide_halves, wide_bfloats))
    assert same_bits(np.nan_to_num(wide_halves), np.nan_to_num(halves))
    assert same_bits(np.nan_to_num(wide_bfloats), np.nan_to_num(bfloats))


def test_numbers_at_and_beside_the_middle_of_two_halves_are_narrowed_to_even() -> None:
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(np.float32)  # subnormal ones too
    middles = (halves[:-1] + halves[1:]) / 2
    for x in (halves[:-1], middles, np.nextafter(middles, np.float32(0)), np.nextafter(middles, np.float32(1e9))):
        padded = np.pad(x, (0, -x.size % 16)).astype(np.float32)
        check_narrowing(padded)
        check_narrowing(-padded)


@settings(deadline=None)
@given(arrays(np.float32, 16, elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_any_number_is_narrowed_as_numpy_does(x: Floats) -> None:
    check_narrowing(x)


@kernel
def through_scalar_halves(args: int, thread: int, threads: int) -> None:
    """Words: x float32 [n], its halves [n], x as halves, float32 [n], n."""
    for i in range(argument(args, 3)):
        write_half(argument(args, 1) + 2 * i, get_f32(argument(args, 0) + 4 * i))
        set_f32(argument(args, 2) + 4 * i, widen_half_at(argument(args, 1) + 2 * i))


def test_a_single_half_goes_the_way_of_sixteen() -> None:
    x = np.float32([0, -0.0, 1e-9, 2.0**-24, 3 * 2.0**-25, 1.0009765, -65519, 1e9])
    halves, back = np.zeros(x.size, np.float16), drive.untouched(x.size)
    drive.run(ONE_THREAD, through_scalar_halves(x, halves, back, x.size))
    assert same_bits(back, reference.round_f16(x))
