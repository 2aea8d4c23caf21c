"""From rows as they lie in a file to the kernels' groups of 16 rows.

Every packed block is a transpose: what a row holds one behind the other (2-byte fields, 1-byte fields, 4-byte words)
comes to lie beside the same thing of the 15 other rows. Where a file's block is not in that form yet, `rearrange.py`
brings it there, 32 columns at a time.
"""

from functools import cache

import numpy as np

from dllama_py.float_types import BLOCK, Bytes, FloatType
from dllama_py.kernels.constants import constant
from dllama_py.kernels.functions import CompiledFunction, compiled_on_demand
from dllama_py.kernels.layout import FIELDS, GROUP, file_blocks
from dllama_py.kernels.rearrange import header_of, run_of
from dllama_py.kernels.vectors import get_i16, get_i32, get_u8, set_i16, set_i32, set_u8

_SCRATCH_BYTES = 256  # for a block of 32 columns of a row


def pack_rows(kind: FloatType, blocks: range, data: Bytes, packed: Bytes, first_row: int) -> None:
    """Puts rows [first_row, ...) of a matrix of these blocks of 32 columns into place.

    data: uint8 [rows, bytes], of each row the file's blocks that hold them (layout.file_bytes), C-contiguous.
    """
    first = blocks.start - file_blocks(kind, blocks).start * kind.block_elements // BLOCK
    scratch = np.empty(_SCRATCH_BYTES, np.uint8)
    span = (first, first + len(blocks))
    packer(kind)(data.ctypes.data, data.shape[0], packed.ctypes.data, first_row, scratch.ctypes.data, span)


@cache
def packer(kind: FloatType) -> CompiledFunction:
    """`pack` of one type: data, number of rows, packed, first row, scratch, (first, end) of the blocks of 32 columns
    counted from the first file block.
    """
    number, elements, n_bytes = kind.ggml_type, kind.block_elements, kind.block_bytes
    halves, single, words, header = FIELDS[kind]

    def pack(data: int, n_rows: int, packed: int, first_row: int, scratch: int, span: tuple[int, int]) -> None:
        first, end = span
        row_bytes = (end * BLOCK + elements - 1) // elements * n_bytes
        n_headers = (end * BLOCK + elements - 1) // elements
        group_bytes = GROUP * ((end - first) * (2 * halves + single + 4 * words) + n_headers * 2 * header)
        for row in range(n_rows):
            lane = (first_row + row) % GROUP
            target = packed + (first_row + row) // GROUP * group_bytes
            for block in range(first, end):
                source = data + row * row_bytes + block * BLOCK // elements * n_bytes
                if header != 0 and (block == first or block * BLOCK % elements == 0):
                    header_of(constant(number), source, block * BLOCK % elements // BLOCK, scratch)
                    for i in range(header):
                        set_i16(target + 2 * (GROUP * i + lane), get_i16(scratch + 2 * i))
                    target += 2 * GROUP * header
                source = run_of(constant(number), source, block * BLOCK % elements // BLOCK, scratch)
                for i in range(halves):
                    set_i16(target + 2 * (GROUP * i + lane), get_i16(source + 2 * i))
                source, target = source + 2 * halves, target + 2 * halves * GROUP
                for i in range(single):
                    set_u8(target + GROUP * i + lane, get_u8(source + i))
                source, target = source + single, target + single * GROUP
                for i in range(words):
                    set_i32(target + 4 * (GROUP * i + lane), get_i32(source + 4 * i))
                target += 4 * words * GROUP

    pack.__name__ = pack.__qualname__ = f"pack_{kind.label}"
    return compiled_on_demand("void(intp, intp, intp, intp, intp, UniTuple(intp, 2))", (packer, kind))(pack)
