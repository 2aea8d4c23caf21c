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
from dllama_py.kernels.words import Words
from tests.kernels import drive
from tests.kernels.samples import same_bits

ONE_THREAD = Team(1)


class Widen(Words):
    HALVES = "uint16 [n]"
    BFLOATS = "uint16 [n]"
    N = "a multiple of 16"
    OF_HALVES = "float32 [n]"
    OF_BFLOATS = "float32 [n]"


@kernel(Widen)
def widen(args: int, thread: int, threads: int) -> None:
    for i in range(0, argument(args, Widen.N), 16):
        store_f32(argument(args, Widen.OF_HALVES) + 4 * i, load_f16(argument(args, Widen.HALVES) + 2 * i))
        store_f32(argument(args, Widen.OF_BFLOATS) + 4 * i, load_bf16(argument(args, Widen.BFLOATS) + 2 * i))


class Narrow(Words):
    X = "float32 [n]"
    N = "a multiple of 16"
    HALVES = "uint16 [n]"
    BFLOATS = "uint16 [n]"
    AS_HALF = "float32 [n], x rounded to halves"
    AS_BFLOAT = "float32 [n], x rounded to bfloats"


@kernel(Narrow)
def narrow(args: int, thread: int, threads: int) -> None:
    for i in range(0, argument(args, Narrow.N), 16):
        x = load_f32(argument(args, Narrow.X) + 4 * i)
        store_f16(argument(args, Narrow.HALVES) + 2 * i, x)
        store_bf16(argument(args, Narrow.BFLOATS) + 2 * i, x)
        store_f32(argument(args, Narrow.AS_HALF) + 4 * i, round_f16(x))
        store_f32(argument(args, Narrow.AS_BFLOAT) + 4 * i, round_bf16(x))


def check_narrowing(x: Floats) -> None:
    halves, bfloats = np.zeros(x.size, np.float16), np.zeros(x.size, np.uint16)
    as_half, as_bfloat = drive.untouched(x.size), drive.untouched(x.size)
    drive.run(
        ONE_THREAD,
        narrow(x=x, n=x.size, halves=halves, bfloats=bfloats, as_half=as_half, as_bfloat=as_bfloat),
    )
    assert same_bits(halves.astype(np.float32), reference.round_f16(x))
    assert same_bits(as_half, reference.round_f16(x))
    assert same_bits(widen_bf16(bfloats), reference.round_bf16(x))
    assert same_bits(as_bfloat, reference.round_bf16(x))


def test_every_half_and_bfloat_widens_exactly() -> None:
    bits = np.arange(65536, dtype=np.uint16)
    halves, bfloats = bits.view(np.float16).astype(np.float32), widen_bf16(bits)
    wide_halves, wide_bfloats = drive.untouched(65536), drive.untouched(65536)
    drive.run(
        ONE_THREAD,
        widen(halves=bits, bfloats=bits, n=65536, of_halves=wide_halves, of_bfloats=wide_bfloats),
    )
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
