"""Kernels that convert arrays to and from halves and bfloats."""

import numpy as np
from numpy.typing import NDArray

from dllama_py.blocks import Floats
from dllama_py.kernels.program import argument, kernel
from dllama_py.kernels.team import Team
from dllama_py.kernels.vectors import (
    load_bf16,
    load_f16,
    load_f32,
    round_bf16,
    round_f16,
    store_bf16,
    store_f16,
    store_f32,
)
from dllama_py.kernels.words import Words
from tests.kernels import drive

Bits = NDArray[np.uint16]


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


def widened(team: Team, bits: Bits) -> tuple[Floats, Floats]:
    """uint16 [n], n a multiple of 16 -> float32 [n]: read as halves, as bfloats."""
    of_halves, of_bfloats = drive.untouched(bits.size), drive.untouched(bits.size)
    drive.run(team, widen(halves=bits, bfloats=bits, n=bits.size, of_halves=of_halves, of_bfloats=of_bfloats))
    return of_halves, of_bfloats


def narrowed(team: Team, x: Floats) -> tuple[Bits, Bits, Floats, Floats]:
    """float32 [n], n a multiple of 16 -> halves, bfloats; x rounded to each, float32 [n]."""
    halves, bfloats = np.zeros(x.size, np.uint16), np.zeros(x.size, np.uint16)
    as_half, as_bfloat = drive.untouched(x.size), drive.untouched(x.size)
    call = narrow(x=x, n=x.size, halves=halves, bfloats=bfloats, as_half=as_half, as_bfloat=as_bfloat)
    drive.run(team, call)
    return halves, bfloats, as_half, as_bfloat
