# python -m pytest tests/kernels/test_pack.py
import numpy as np
import pytest

from dllama_py.blocks import FloatType
from dllama_py.kernels import reference
from dllama_py.kernels.layout import RUN_BYTES
from dllama_py.kernels.pack import pack_rows, to_runs
from dllama_py.kernels.team import Team
from tests.kernels import drive
from tests.kernels.samples import WEIGHTS_TYPES, activations, same_bits, weights


@pytest.mark.parametrize("kind", WEIGHTS_TYPES, ids=lambda kind: kind.label)
def test_runs_are_whole_32_columns_of_a_row(kind: FloatType) -> None:
    assert to_runs(kind, weights(kind, 3, 512)).shape == (3, 16, RUN_BYTES[kind])


@pytest.mark.parametrize("kind", WEIGHTS_TYPES, ids=lambda kind: kind.label)
def test_rows_may_be_packed_in_portions(kind: FloatType) -> None:
    runs = to_runs(kind, weights(kind, 37, 256)).reshape(37, -1)
    packed = drive.empty_packed(kind, 37, 8)
    for first, end in ((0, 5), (30, 37), (5, 17), (17, 30)):
        pack_rows(kind, runs[first:end].copy(), packed, first)
    assert same_bits(packed, drive.pack(kind, weights(kind, 37, 256)))


@pytest.mark.parametrize(("first", "end"), [(0, 8), (1, 2), (3, 11), (7, 16), (10, 13)])
def test_a_q6k_row_may_be_cut_inside_a_super_block(team: Team, first: int, end: int) -> None:
    """Columns 32 * first to 32 * end alone give what the reference gives for them as a leaf of the whole row."""
    kind = FloatType.Q6K
    data, x = weights(kind, 20, 512), activations(2, 512)
    runs = to_runs(kind, data)[:, first:end].reshape(20, -1).copy()
    packed = drive.empty_packed(kind, 20, end - first)
    pack_rows(kind, runs, packed, 0)
    cut = drive.matmul_packed(
        team, kind, packed, 20, np.ascontiguousarray(x[:, 32 * first : 32 * end]), [0, end - first]
    )
    assert same_bits(cut[0], reference.matmul(data, kind, x, np.array([0, first, end]))[1])
