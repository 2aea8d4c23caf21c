# python -m pytest tests/kernels/test_pack.py
import numpy as np
import pytest

from dllama_py.blocks import FloatType
from dllama_py.kernels import reference
from dllama_py.kernels.layout import packed_bytes, phase_of
from dllama_py.kernels.pack import pack_rows
from dllama_py.kernels.team import Team
from tests.kernels import drive
from tests.kernels.samples import WEIGHTS_TYPES, activations, same_bits, weights


@pytest.mark.parametrize("kind", WEIGHTS_TYPES, ids=lambda kind: kind.label)
def test_packed_weights_take_little_more_than_the_file(kind: FloatType) -> None:
    in_file, packed = kind.n_bytes(16 * 512), packed_bytes(kind, 16, range(16))
    assert in_file <= packed <= 1.1 * in_file


@pytest.mark.parametrize("kind", WEIGHTS_TYPES, ids=lambda kind: kind.label)
def test_rows_may_be_packed_in_portions(kind: FloatType) -> None:
    data, blocks = weights(kind, 37, 256), range(8)
    packed = drive.empty_packed(kind, 37, blocks)
    for first, end in ((0, 5), (30, 37), (5, 17), (17, 30)):
        pack_rows(kind, blocks, data[first:end].copy(), packed, first)
    assert same_bits(packed, drive.pack(kind, data))


@pytest.mark.parametrize("kind", WEIGHTS_TYPES, ids=lambda kind: kind.label)
@pytest.mark.parametrize("blocks", [range(8), range(1, 2), range(3, 11), range(7, 16), range(5, 24), range(10, 13)])
def test_a_row_may_be_cut_inside_a_super_block(team: Team, kind: FloatType, blocks: range) -> None:
    """Some blocks alone, in two leaves, give what the reference gives for them as leaves of the whole row."""
    data, x, middle = weights(kind, 20, 768), activations(2, 768), (blocks.start + 2 * blocks.stop) // 3
    packed = drive.pack(kind, data, blocks)
    of_them = np.ascontiguousarray(x[:, 32 * blocks.start : 32 * blocks.stop])
    leaves = [0, middle - blocks.start, len(blocks)]
    cut = drive.matmul_packed(team, kind, packed, 20, of_them, leaves, phase_of(kind, blocks))
    expected = reference.matmul(data, kind, x, np.array([0, blocks.start, middle, blocks.stop]))
    assert same_bits(cut, expected[1:])
