# python -m pytest tests/engine/test_parting.py
import numpy as np
import pytest

from dllama_py.engine.parting import Parting, Trail, first_parting

T, L, P = 3, 2, 8


def trail(n_nodes: int = 1) -> Trail:
    nodes = np.tile(np.arange(P) * n_nodes // P, (L, 1))
    return Trail(np.arange(T * (L + 1)).reshape(T, L + 1), np.arange(T * L * 2 * P).reshape(T, L, 2, P), nodes)


def test_same_runs_do_not_part() -> None:
    assert first_parting(trail(), trail(4)) is None


@pytest.mark.parametrize(
    ("leaf", "n_nodes", "node"), [(0, 1, 0), (7, 1, 0), (3, 2, 0), (4, 2, 1), (5, 4, 2), (7, 8, 7)]
)
def test_a_leaf_tells_the_node(leaf: int, n_nodes: int, node: int) -> None:
    other = trail(n_nodes)
    other.leaves[1, 1, 0, leaf] += 1
    other.leaves[1, 1, 1] += 1  # everything after it
    other.residual[1, 2] += 1
    other.residual[2] += 1
    assert first_parting(trail(), other) == Parting(1, 1, "attention", node)


def test_a_sum_or_an_embedding_belongs_to_all_nodes() -> None:
    other = trail(2)
    other.residual[2, 1] += 1
    other.leaves[2, 1] += 1
    assert first_parting(trail(), other) == Parting(2, 0, "sum", None)
    other.nodes[0] = 3  # a stage that one node has to itself
    assert first_parting(trail(), other) == Parting(2, 0, "sum", 3)
    other.residual[2, 0] += 1
    assert first_parting(trail(), other) == Parting(2, None, "embedding", None)
