"""What both kernels of matrix products are told, and where in it a tile of outputs lies; see matmul.py."""

from typing import NamedTuple

from dllama_py.float_types import BLOCK, SUPER_BLOCK
from dllama_py.kernels.dot4 import DOT4
from dllama_py.kernels.words import Words

GROUP_BYTES = 64  # of 16 float outputs
RUNS = SUPER_BLOCK // BLOCK  # blocks of a super-block
TALLEST = DOT4.tallest


class Product(Words):
    """Of both kernels. An entry of the lists is a row of x with the output row it goes to, sorted by expert."""

    STARTS = "int64 [n_experts + 1], borders of the experts in the lists"
    X = "uint8 [*, B * 48], quantised; for float weights float32 [*, B * 32]"
    X_STRIDE = "bytes from row to row"
    X_ROWS = "int64 [entries]"
    WEIGHTS = "uint8 [n_experts, packed_bytes]"
    N_GROUPS = "of 16 outputs"
    N_BLOCKS = "B"
    PHASE = "place of the first block in its super-block, 0 for types without"
    OUT = "float32 [n_leaves, *, n_groups * 16]"
    OUT_STRIDE = "bytes from row to row"
    OUT_ROWS = "int64 [entries]"
    LEAVES = "int64 [n_leaves + 1], borders in blocks"
    N_LEAVES = "P, or 1: the whole product"
    LEAF_STRIDE = "bytes from leaf to leaf of out"
    N_EXPERTS = "1 for a dense matrix"
    PATTERN = "int64 [2], a ReadPattern of the weights; left out: as was found best for their type"
    FACTORS = "float32 [entries], of matmul_weighted only"
    N_ROWS = "int64 [1], output rows, of matmul_weighted only; left out: goes on from what the outputs hold"


class Place(NamedTuple):
    """Where a tile of outputs lies: the packed weights of its group, the group, its first entry, the expert's end."""

    weights: int
    group: int
    entry: int
    end: int


class Apart(NamedTuple):
    """How far the groups that are read side by side lie apart: in groups, and the bytes of a group."""

    n_groups: int
    group_bytes: int
