# python -m pytest tests/transport/test_tree.py
"""The tree of a broadcast reaches everybody once."""

import pytest

from dllama_py.transport.tree import children_of, parent_of


def test_the_tree_of_eight() -> None:
    assert [list(children_of(rank, 0, 8)) for rank in range(8)] == [[4, 2, 1], [], [3], [], [6, 5], [], [7], []]


def test_the_tree_of_five_from_the_middle() -> None:
    assert [list(children_of(rank, 3, 5)) for rank in range(5)] == [[1], [], [], [2, 0, 4], []]


@pytest.mark.parametrize("size", range(1, 18))
def test_every_rank_has_the_parent_that_has_it_for_a_child(size: int) -> None:
    for root in range(size):
        told = {child: rank for rank in range(size) for child in children_of(rank, root, size)}
        assert told == {rank: parent_of(rank, root, size) for rank in range(size) if rank != root}
        assert parent_of(root, root, size) is None
