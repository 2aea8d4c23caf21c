"""How kernels want memory: weights in groups of 16 rows, activations in blocks of 32 with their scale beside them.

Packed weights: rows in groups of 16 (the last one padded with zero rows). Within a group, for each block of 32 columns,
what `FIELDS` says, 16 rows side by side; where a type has super-blocks of 256 columns, what they share stands before
the first of their blocks. A matrix may begin and end within a super-block. "Vector j" of 64 bytes holds in bytes
4r..4r+3 four columns of row r; of codes narrower than a byte it holds several such vectors, one in each bit field.

The KV cache lies in pages of 64 positions; a thread of attention has scratch for a tile of queries and their scores.

Quantised activations: 48 bytes a block (`X_*` offsets): 32 signed codes, the float32 scale, the int32 sums of the
first 16 codes and of the last 16, and the float32 product of the scale and the sum of all.
"""

from typing import NamedTuple

from dllama_py.float_types import BLOCK, FloatType

GROUP = 16  # rows
PAGE = 64  # positions
RUN = 16  # positions of a page whose keys lie side by side
TILE = 8  # queries of an attention tile at most
LISTS_BYTES = 512  # of scratch: what attention notes about the queries of a tile, before their scores

F32_BLOCK_BYTES = 4 * BLOCK  # of activations that meet float weights
X_BLOCK_BYTES = 48
X_SCALE, X_SUM_FIRST, X_SUM_LAST, X_SCALED_SUM = 32, 36, 40, 44


class Fields(NamedTuple):
    """What a block of 32 columns holds of each row, in this order; `header` halves belong to its super-block."""

    halves: int = 0
    bytes: int = 0
    words: int = 0
    header: int = 0

    @property
    def block_bytes(self) -> int:
        """Of a row."""
        return 2 * self.halves + self.bytes + 4 * self.words


FIELDS = {
    FloatType.F32: Fields(words=32),
    FloatType.F16: Fields(halves=32),
    FloatType.BF16: Fields(halves=32),
    FloatType.Q40: Fields(halves=1, words=4),  # scale; vectors j = 0..3: low nibbles columns 4j.., high ones 16+4j..
    FloatType.Q41: Fields(halves=2, words=4),  # scale, minimum; as q40
    FloatType.Q50: Fields(halves=1, words=5),  # scale; nibbles as q40, a vector of high bits: bit j columns 4j..
    FloatType.Q51: Fields(halves=2, words=5),  # scale, minimum; as q50
    FloatType.Q80: Fields(halves=1, words=8),  # scale; vectors j = 0..7: columns 4j..
    # Header: the super-block's scale and its minimum, negative. Bytes: scale and minimum, or those of columns 0.., 16..
    FloatType.Q2K: Fields(header=2, bytes=2, words=2),  # bytes: scale in the low nibble, minimum in the high one;
    #   2 vectors of bit pairs: bits 2j, 2j+1 belong to columns 4j.. (first), 16+4j.. (second)
    FloatType.Q3K: Fields(header=1, bytes=2, words=3),  # 2 signed scales; bit pairs as q2_k, high bits as q50
    FloatType.Q4K: Fields(header=2, bytes=2, words=4),  # nibbles as q40
    FloatType.Q5K: Fields(header=2, bytes=2, words=5),  # codes as q50
    FloatType.Q6K: Fields(header=1, bytes=2, words=6),  # 2 signed scales; nibbles as q40, high bit pairs as q2_k
    FloatType.IQ4NL: Fields(halves=1, words=4),  # as q40
    FloatType.IQ4XS: Fields(header=1, bytes=1, words=4),  # signed scale; nibbles as q40
    FloatType.MXFP4: Fields(bytes=1, words=4),  # exponent; nibbles as q40
    # Codewords: low bytes of their numbers (of 8 columns each, or of 4) and signs, a bit a column (codewords.py); in
    # headers of 3 a word of nibbles, that of the next block lowest: scales of 32 columns, or what is said here
    FloatType.IQ2XXS: Fields(header=3, words=2),
    FloatType.IQ2XS: Fields(header=3, bytes=1, words=2),  # byte: scales of 16 columns; header: a high bit a number
    FloatType.IQ2S: Fields(header=1, bytes=10),  # signs in order; nibbles of scales, two high bits of each number
    FloatType.IQ3XXS: Fields(header=3, words=3),
    FloatType.IQ3S: Fields(header=3, bytes=1, words=3),  # byte: a high bit of each number
    FloatType.IQ1S: Fields(header=3, halves=1, bytes=4),  # of each number 3 high bits and the shift; no signs
    FloatType.IQ1M: Fields(header=1, halves=1, bytes=5),  # as iq1_s, then nibbles of scales of 16 columns
}


def block_bytes(kind: FloatType) -> int:
    """Bytes of a packed block: 32 columns of 16 rows."""
    return GROUP * FIELDS[kind].block_bytes


def header_bytes(kind: FloatType) -> int:
    """Bytes before the blocks of a super-block of 16 rows; 0 for types without."""
    return GROUP * 2 * FIELDS[kind].header


def phase_of(kind: FloatType, blocks: range) -> int:
    """The place of the first block within its super-block; 0 for types without."""
    return blocks.start % (kind.block_elements // BLOCK) if FIELDS[kind].header else 0


def n_groups(rows: int) -> int:
    """Groups that hold so many rows; the last may be part empty."""
    return -(-rows // GROUP)


def packed_bytes(kind: FloatType, rows: int, blocks: range) -> int:
    """Bytes of a packed matrix of some rows and of these blocks of 32 columns of a file's rows."""
    headers = header_bytes(kind) * len(file_blocks(kind, blocks)) if FIELDS[kind].header else 0
    return n_groups(rows) * (len(blocks) * block_bytes(kind) + headers)


def file_blocks(kind: FloatType, blocks: range) -> range:
    """The blocks of a file's row that hold these blocks of 32 columns, or parts of them."""
    columns = range(blocks.start * BLOCK, blocks.stop * BLOCK)
    return range(columns.start // kind.block_elements, -(-columns.stop // kind.block_elements))


def file_bytes(kind: FloatType, blocks: range) -> slice:
    """Where they lie in a file's row: a slice of a matrix travels as these bytes of its rows."""
    found = file_blocks(kind, blocks)
    return slice(found.start * kind.block_bytes, found.stop * kind.block_bytes)


def scratch_bytes(context: int) -> int:
    """Bytes a thread of attention needs for a context of that many positions."""
    pages = -(-context // PAGE)
    return LISTS_BYTES + TILE * pages * PAGE * 4
