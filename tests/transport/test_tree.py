# python -m pytest tests/transport/test_tree.py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dllama_py.transport.comm import Comm
from dllama_py.transport.tree import TreeAllReduce
from tests.support.codecs import CODECS
from tests.support.threads import run_ranks
from tests.support.tree import naive_tree, parts_of_ranks


def reduced(parts: list[np.ndarray], exchange: str, long_from: int) -> list[bytes]:
    """What every rank holds after the all-reduce."""

    def work(comm: Comm) -> bytes:
        values = parts[comm.rank].copy()
        TreeAllReduce(comm, CODECS[exchange], values.size, long_from)(values)
        return values.tobytes()

    return run_ranks(len(parts), work)


@settings(deadline=None, max_examples=60)
@given(
    size=st.sampled_from([1, 2, 4, 8]),
    n_blocks=st.integers(1, 40),
    exchange=st.sampled_from(["f32", "bf16", "q80"]),
    long_from=st.sampled_from([0, 10**9]),
    seed=st.integers(0, 2**32),
)
def test_every_rank_gets_the_bits_of_the_naive_tree(
    size: int, n_blocks: int, exchange: str, long_from: int, seed: int
) -> None:
    parts = parts_of_ranks(size, 32 * n_blocks, exchange, seed)
    wanted = naive_tree(parts, exchange).tobytes()
    assert reduced(parts, exchange, long_from) == [wanted] * size


@pytest.mark.parametrize("long_from", [0, 10**9])
def test_pairs_of_neighbours_come_first(long_from: int) -> None:
    parts = [np.full(256, value, np.float32) for value in (1e8, 1, -1e8, 1)]
    wanted = np.zeros(256, np.float32).tobytes()  # left to right it would be 1
    assert reduced(parts, "f32", long_from) == [wanted] * 4


def test_long_vectors_move_less() -> None:
    class Counting:
        def __init__(self, comm: Comm) -> None:
            self.comm, self.rank, self.size, self.sent_bytes = comm, comm.rank, comm.size, 0

        def exchange(self, send: np.ndarray, receive: np.ndarray, partner: int) -> None:
            self.sent_bytes += send.nbytes
            self.comm.exchange(send, receive, partner)

    def work(comm: Comm, long_from: int) -> int:
        counting = Counting(comm)
        TreeAllReduce(counting, CODECS["f32"], 1024, long_from)(np.ones(1024, np.float32))
        return counting.sent_bytes

    assert run_ranks(4, lambda comm: work(comm, 10**9)) == [2 * 4096] * 4
    assert run_ranks(4, lambda comm: work(comm, 0)) == [4096 * 3 // 2] * 4


def test_a_world_of_three_is_no_tree() -> None:
    with pytest.raises(ValueError, match="3 ranks"):
        run_ranks(3, lambda comm: TreeAllReduce(comm, CODECS["f32"], 32))
