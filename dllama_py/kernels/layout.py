"""How kernels want memory: weights in groups of 16 rows, activations in blocks of 32 with their scale beside them.

Packed weights: rows in groups of 16 (the last one padded with zero rows); within a group, for each block of 32
columns, what `PackedBlock` says, 16 rows side by side. "Vector j" of 64 bytes holds in bytes 4r..4r+3 four
columns of row r.

The KV cache lies in pages of 64 positions; a thread of attention has scratch for a tile of queries and their scores.

Quantised activations: 48 bytes a block (`X_*` offsets): 32 signed codes, the float32 scale, the int32 sums of the
first 16 codes, of the last 16, and of all.
"""

from dllama_py.float_types import BLOCK, COMPUTED, FloatType

GROUP = 16  # rows
PAGE = 64  # positions
RUN = 16  # positions of a page whose keys lie side by side
TILE = 8  # queries of an attention tile at most
LISTS_BYTES = 512  # of scratch: what attention notes about the queries of a tile, before their scores

F32_BLOCK_BYTES = 4 * BLOCK  # of activations that meet float weights
X_BLOCK_BYTES = 48
X_SCALE, X_SUM_FIRST, X_SUM_LAST, X_SUM = 32, 36, 40, 44

# Bytes of a block of 32 columns for a group of 16 rows:
PACKED_BLOCK_BYTES = {
    FloatType.F32: 2048,  # 32 columns, each 16 floats
    FloatType.F16: 1024,
    FloatType.BF16: 1024,
    FloatType.Q40: 288,  # 16 half scales; vectors j = 0..3: low nibbles columns 4j.., high nibbles 16+4j..
    FloatType.Q41: 320,  # 16 half scales, 16 half minima, vectors as q40
    FloatType.Q80: 544,  # 16 half scales; vectors j = 0..7: columns 4j..4j+3
    FloatType.Q6K: 448,  # 16 half scales, 16 + 16 int8 scales (columns 0..15, 16..31), nibble vectors as q40,
    #                      2 vectors of high bits: bits 2j, 2j+1 belong to columns 4j.. (first), 16+4j.. (second)
}

# A slice travels as runs of 32 columns. A run is the file's block, but for a K type, whose super-block is cut:
RUN_BYTES = {kind: kind.n_bytes(BLOCK) for kind in COMPUTED if kind.block_elements <= BLOCK} | {
    FloatType.Q6K: 28,  # half scale, two int8 scales, 16 bytes of low nibbles (j and j+16), 8 of high bit pairs
}


def n_groups(rows: int) -> int:
    """Groups that hold so many rows; the last may be part empty."""
    return -(-rows // GROUP)


def packed_bytes(kind: FloatType, rows: int, n_blocks: int) -> int:
    """Bytes of a packed matrix of `rows` x `n_blocks` * 32."""
    return n_groups(rows) * n_blocks * PACKED_BLOCK_BYTES[kind]


def scratch_bytes(context: int) -> int:
    """Bytes a thread of attention needs for a context of that many positions."""
    pages = -(-context // PAGE)
    return LISTS_BYTES + TILE * pages * PAGE * 4
