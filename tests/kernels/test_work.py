# python -m pytest tests/kernels/test_work.py
"""What instructions have to do, against what is known of a tiny model's sizes."""

import numpy as np

from dllama_py.blocks import FloatType
from dllama_py.kernels.elementwise import add
from dllama_py.kernels.gather import gather
from dllama_py.kernels.matmul import matmul
from dllama_py.kernels.program import Instruction
from dllama_py.kernels.swap import swap
from dllama_py.kernels.work import work_of
from dllama_py.stamps import Role, Work

Ints = np.ndarray


def product(starts: Ints, n_experts: int = 1) -> Instruction:
    """48 outputs of 64 inputs in q40: 3 groups of 2 blocks, 16 x 18 bytes each."""
    nothing = np.zeros(1, np.int64)
    return matmul(FloatType.Q40)(
        starts=starts,
        x=nothing,
        x_stride=0,
        x_rows=nothing,
        weights=np.zeros(n_experts * 3 * 2 * 16 * 18, np.uint8),
        n_groups=3,
        n_blocks=2,
        phase=0,
        out=nothing,
        out_stride=0,
        out_rows=nothing,
        leaves=nothing,
        n_leaves=1,
        leaf_stride=0,
        n_experts=n_experts,
    )


def swapped(n_rows: Ints, level: int) -> Instruction:
    nothing = np.zeros(1, np.uint8)
    return swap(
        n_rows=n_rows,
        n_blocks=18,
        block_bytes=34,
        sent=nothing,
        sent_level=level,
        sent_path=0,
        received=nothing,
        received_level=level,
        received_path=0,
        partner=1,
        wire=np.zeros(64, np.int64),
    )


def test_a_dense_product_reads_its_weights_once_and_multiplies_for_every_row() -> None:
    (work,), counters = work_of([product(np.array([0, 5]))])
    counts = [counter() for counter in counters]
    assert work == Work("matmul_q40", Role.WEIGHTS, 0, 1728, 1, 48 * 64)
    assert (counts, work.bytes_read(counts), work.multiplications(counts)) == ([5], 1728, 5 * 48 * 64)


def test_of_experts_as_many_are_read_as_there_are_pairs_at_most() -> None:
    starts = np.array([0, 2, 2, 3])
    (work,), counters = work_of([product(starts, n_experts=3)])
    assert work.bytes_read([counter() for counter in counters]) == 3 * 1728
    starts[-1] = 2
    assert work.bytes_read([counter() for counter in counters]) == 2 * 1728


def test_a_swap_sends_a_part_of_every_row() -> None:
    n_rows = np.array([4])
    works, counters = work_of([swapped(n_rows, 0), swapped(n_rows, 1)])
    counts = [counter() for counter in counters]
    assert [work.bytes_sent(counts) for work in works] == [4 * 18 * 34, 4 * 9 * 34]
    assert [work.role for work in works] == [Role.EXCHANGE, Role.EXCHANGE]


def test_all_but_the_leader_send_their_candidates() -> None:
    n_rows, n_candidates, nothing = np.array([3]), np.array([5]), np.zeros(1, np.int64)
    of_ranks = [
        gather(
            n_rows=n_rows,
            n_candidates=n_candidates,
            n_shares=4,
            candidates=nothing,
            of_all=nothing,
            stride=8,
            rank=rank,
            ranks=2,
            wire=np.zeros(64, np.int64),
        )
        for rank in (0, 1)
    ]
    works, counters = work_of(of_ranks)
    assert [work.bytes_sent([counter() for counter in counters]) for work in works] == [0, 3 * (5 + 2 * 4) * 8]
    n_candidates[0] = 0  # the logits themselves are wanted
    assert [work.bytes_sent([counter() for counter in counters]) for work in works] == [0, 0]


def test_instructions_that_count_the_same_array_share_a_counter() -> None:
    rows, wanted = np.array([0, 3]), np.array([0, 1])
    works, counters = work_of([product(rows), product(wanted), product(rows)])
    assert [work.counter for work in works] == [0, 1, 0]
    assert [counter() for counter in counters] == [3, 1]


def test_what_is_not_counted_is_small() -> None:
    nothing = np.zeros(1)
    works, counters = work_of([add(n_rows=nothing, x=nothing, y=nothing, n_blocks=1)])
    assert (works, counters) == ((Work("add", Role.SMALL),), ())
