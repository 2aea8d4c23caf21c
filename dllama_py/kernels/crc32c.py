"""CRC-32C (Castagnoli, as iSCSI and ext4 have it) of memory: by the CPU's instruction where it has one, else by tables.

A CRC is the remainder of a polynomial over GF(2), so the CRC of two parts follows from theirs: three runs of bytes are
read side by side, which hides that the instruction takes three cycles, and joined by a table that says what so many
zero bytes make of a state. By tables, eight bytes are read at a time ("slicing by 8", Kounavis and Berry 2008).
"""

from typing import Any

import numpy as np
from numba import types
from numpy.typing import NDArray

from dllama_py.kernels.codegen import I32, I64, call_intrinsic, define
from dllama_py.kernels.features import HAS_CRC32C, IS_ARM
from dllama_py.kernels.functions import compiled
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.vectors import get_i64, get_u8

POLYNOMIAL = np.uint32(0x82F63B78)  # bits reversed
RUN_BYTES = 512  # of each of three runs
ALL_ONES = 0xFFFFFFFF

States = NDArray[np.uint32]


def _after_byte() -> States:
    """Of states 0 to 255, a zero byte later."""
    states = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        states = np.where(states & 1, states >> 1 ^ POLYNOMIAL, states >> 1).astype(np.uint32)
    return states


def _after_zeros(states: States, n_bytes: int) -> States:
    for _ in range(n_bytes):
        states = AFTER_BYTE[states & 255] ^ states >> 8
    return states


AFTER_BYTE = _after_byte()
AFTER = np.stack([_after_zeros(AFTER_BYTE, n) for n in range(8)])  # [8, 256]: n bytes later than that
AFTER_RUN = _after_zeros(np.arange(256, dtype=np.uint32) << np.array([[0], [8], [16], [24]], np.uint32), RUN_BYTES)


def _crc_of_8(builder: Any, state: Any, word: Any) -> Any:
    if not IS_ARM:
        return call_intrinsic(builder, "llvm.x86.sse42.crc32.64.64", I64, state, word)
    return builder.zext(
        call_intrinsic(builder, "llvm.aarch64.crc32cx", I32, builder.trunc(state, I32), word),
        I64,
    )


instruction = define(types.int64, (types.int64,) * 2, _crc_of_8, "instruction")


@njit(error_model="numpy")
def by_table(state: int, word: int) -> Any:
    """The state after 8 bytes."""
    x = state ^ word
    low = AFTER[7, x & 255] ^ AFTER[6, x >> 8 & 255] ^ AFTER[5, x >> 16 & 255] ^ AFTER[4, x >> 24 & 255]
    high = AFTER[3, x >> 32 & 255] ^ AFTER[2, x >> 40 & 255] ^ AFTER[1, x >> 48 & 255] ^ AFTER[0, x >> 56 & 255]
    return np.int64(low ^ high)


of_8_bytes = instruction if HAS_CRC32C else by_table


@njit(error_model="numpy")
def skip_run(state: int) -> Any:
    """The state after a run of zero bytes."""
    low, high = AFTER_RUN[0, state & 255] ^ AFTER_RUN[1, state >> 8 & 255], AFTER_RUN[2, state >> 16 & 255]
    return np.int64(low ^ high ^ AFTER_RUN[3, state >> 24 & 255])


@njit(error_model="numpy")
def of_three_runs(state: int, address: int) -> Any:
    """The state after three runs of bytes that follow each other."""
    second, third = np.int64(0), np.int64(0)
    for at in range(address, address + RUN_BYTES, 8):
        state = of_8_bytes(state, get_i64(at))
        second = of_8_bytes(second, get_i64(at + RUN_BYTES))
        third = of_8_bytes(third, get_i64(at + 2 * RUN_BYTES))
    return skip_run(skip_run(state) ^ second) ^ third


@njit(error_model="numpy")
def checksum(address: int, n_bytes: int) -> Any:
    """As crc32c, for kernels."""
    state, end = np.int64(ALL_ONES), address + n_bytes
    while end - address >= 3 * RUN_BYTES:
        state = of_three_runs(state, address)
        address += 3 * RUN_BYTES
    while end - address >= 8:
        state = of_8_bytes(state, get_i64(address))
        address += 8
    while address < end:
        state = np.int64(AFTER[0, (state ^ get_u8(address)) & 255]) ^ state >> 8
        address += 1
    return state ^ np.int64(ALL_ONES)


@compiled("int64(intp, intp)")
def crc32c(address: int, n_bytes: int) -> Any:
    """Of so many bytes at an address: 0 to 2^32 - 1."""
    return checksum(address, n_bytes)
