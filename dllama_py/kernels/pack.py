"""From slices as they travel (runs of 32 columns, layout.RUN_BYTES) to the kernels' groups of 16 rows.

Every packed block is a transpose: what a row's run holds one behind the other (2-byte fields, 1-byte fields, 4-byte
words) comes to lie beside the same thing of the 15 other rows. So one loop serves all types.
"""

from typing import NamedTuple

import numpy as np

from dllama_py.blocks import BLOCK, SUPER_BLOCK, Bytes, FloatType
from dllama_py.kernels.compiled import compiled
from dllama_py.kernels.layout import GROUP, RUN_BYTES
from dllama_py.kernels.vectors import get_i16, get_i32, get_u8, set_i16, set_i32, set_u8

_SUPER_BYTES, _RUN_BYTES = FloatType.Q6K.block_bytes, RUN_BYTES[FloatType.Q6K]
_RUNS = SUPER_BLOCK // BLOCK  # of a super-block


class RunFields(NamedTuple):
    """A run's fields in their order."""

    halves: int
    bytes: int
    words: int


_FIELDS = {
    FloatType.F32: RunFields(0, 0, 32),
    FloatType.F16: RunFields(32, 0, 0),
    FloatType.BF16: RunFields(32, 0, 0),
    FloatType.Q40: RunFields(1, 0, 4),
    FloatType.Q41: RunFields(2, 0, 4),
    FloatType.Q80: RunFields(1, 0, 8),
    FloatType.Q6K: RunFields(1, 2, 6),
}


def pack_rows(kind: FloatType, runs: Bytes, packed: Bytes, first_row: int) -> None:
    """Puts rows [first_row, ...) into place. runs: uint8 [rows, n_blocks * run_bytes], C-contiguous."""
    fields = _FIELDS[kind]
    n_blocks = runs.shape[1] // RUN_BYTES[kind]
    _pack(runs.ctypes.data, runs.shape[0], n_blocks, packed.ctypes.data, first_row, tuple(fields))


@compiled("void(intp, intp, intp, intp, intp, UniTuple(intp, 3))")
def _pack(runs: int, n_rows: int, n_blocks: int, packed: int, first_row: int, fields: tuple[int, int, int]) -> None:
    """`fields` are RunFields, as a plain tuple."""
    halves, n_bytes, words = fields
    run_bytes = 2 * halves + n_bytes + 4 * words
    for row in range(n_rows):
        lane = (first_row + row) % GROUP
        group = packed + (first_row + row) // GROUP * n_blocks * run_bytes * GROUP
        for block in range(n_blocks):
            source = runs + (row * n_blocks + block) * run_bytes
            target = group + block * run_bytes * GROUP
            for i in range(halves):
                set_i16(target + 2 * (GROUP * i + lane), get_i16(source + 2 * i))
            source, target = source + 2 * halves, target + 2 * halves * GROUP
            for i in range(n_bytes):
                set_u8(target + GROUP * i + lane, get_u8(source + i))
            source, target = source + n_bytes, target + n_bytes * GROUP
            for i in range(words):
                set_i32(target + 4 * (GROUP * i + lane), get_i32(source + 4 * i))


def to_runs(kind: FloatType, data: Bytes) -> Bytes:
    """File rows uint8 [rows, row_bytes] -> runs uint8 [rows, n_blocks, run_bytes]; only K types change."""
    if kind is not FloatType.Q6K:
        return data.reshape(data.shape[0], -1, RUN_BYTES[kind])
    data = np.ascontiguousarray(data)
    n_super = data.size // _SUPER_BYTES
    runs = np.empty((n_super, _RUNS, _RUN_BYTES), np.uint8)
    _split_q6k(data.ctypes.data, n_super, runs.ctypes.data)
    return runs.reshape(data.shape[0], -1, RUN_BYTES[kind])


@compiled("void(intp, intp, intp)")
def _split_q6k(blocks: int, n_super: int, runs: int) -> None:
    """Each 32 columns of a super-block with its own copy of the scales."""
    for number in range(n_super):
        block = blocks + number * _SUPER_BYTES
        for part in range(_RUNS):
            run = runs + (number * _RUNS + part) * _RUN_BYTES
            set_i16(run, get_i16(block + 208))
            set_u8(run + 2, get_u8(block + 192 + 2 * part))
            set_u8(run + 3, get_u8(block + 193 + 2 * part))
            low = block + 64 * (part // 4) + 32 * (part % 2)
            high = block + 128 + 32 * (part // 4)
            nibble, pair = 4 * (part % 4 // 2), 2 * (part % 4)
            for c in range(16):
                first, last = get_u8(low + c) >> nibble & 15, get_u8(low + 16 + c) >> nibble & 15
                set_u8(run + 4 + c, np.uint8(first | last << 4))
            for c in range(4):
                first = last = 0
                for j in range(4):
                    first |= (get_u8(high + 4 * j + c) >> pair & 3) << (2 * j)
                    last |= (get_u8(high + 16 + 4 * j + c) >> pair & 3) << (2 * j)
                set_u8(run + 20 + c, np.uint8(first))
                set_u8(run + 24 + c, np.uint8(last))
