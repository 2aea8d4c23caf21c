# python -m pytest tests/model/test_all_reduce.py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dllama_py.transport.comm import Comm
from dllama_py.wire import WireWord
from tests.support.all_reduce import Way, all_reduced
from tests.support.threads import run_ranks
from tests.support.tree import naive_tree, parts_of_ranks

WAYS: list[Way] = ["doubling", "halving_and_doubling"]


def reduced(parts: list[np.ndarray], exchange: str, way: Way) -> list[bytes]:
    """What every rank holds after the all-reduce."""
    return run_ranks(len(parts), lambda comm: all_reduced(comm, parts[comm.rank], exchange, way).tobytes())


@settings(max_examples=60)
@given(
    size=st.sampled_from([1, 2, 4, 8]),
    n_blocks=st.integers(1, 40),
    exchange=st.sampled_from(["f32", "bf16", "q80"]),
    way=st.sampled_from(WAYS),
    seed=st.integers(0, 2**32),
)
def test_every_rank_gets_the_bits_of_the_naive_tree(
    size: int, n_blocks: int, exchange: str, way: Way, seed: int
) -> None:
    parts = parts_of_ranks(size, 32 * n_blocks, exchange, seed)
    wanted = naive_tree(parts, exchange).tobytes()
    assert reduced(parts, exchange, way) == [wanted] * size


@pytest.mark.parametrize("way", WAYS)
def test_pairs_of_neighbours_come_first(way: Way) -> None:
    parts = [np.full(256, value, np.float32) for value in (1e8, 1, -1e8, 1)]
    wanted = np.zeros(256, np.float32).tobytes()  # left to right it would be 1
    assert reduced(parts, "f32", way) == [wanted] * 4


@pytest.mark.parametrize(("way", "sent_bytes"), [("doubling", 2 * 4096), ("halving_and_doubling", 4096 * 3 // 2)])
def test_long_vectors_move_less(way: Way, sent_bytes: int) -> None:
    def work(comm: Comm) -> int:
        all_reduced(comm, np.ones(1024, np.float32), "f32", way)
        return comm.wire[WireWord.SENT_BYTES]

    assert run_ranks(4, work) == [sent_bytes] * 4


def test_a_world_of_three_is_no_tree() -> None:
    with pytest.raises(ValueError, match="3 ranks"):
        run_ranks(3, lambda comm: all_reduced(comm, np.ones(32, np.float32), "f32", "doubling"))
