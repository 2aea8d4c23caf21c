# python -m pytest tests/engine/test_residual_check.py
import numpy as np
import pytest

from dllama_py.engine.residual_check import check_residuals
from dllama_py.errors import ClusterError

HOSTS = {0: "a", 1: "b", 2: "c", 3: "d"}
SECOND_STAGE = {2: "c", 3: "d"}


def alike(n_ranks: int) -> np.ndarray:
    """int64 [N, 4 layers + 1, 3 rows]."""
    return np.repeat(np.arange(15).reshape(1, 5, 3), n_ranks, axis=0)


def test_ranks_that_agree() -> None:
    check_residuals(alike(4), HOSTS, [7, 8, 9])
    check_residuals(alike(1), {0: "a"}, [7, 8, 9])


@pytest.mark.parametrize("rank", [0, 2, 3])
def test_the_rank_that_is_alone_is_named(rank: int) -> None:
    residuals = alike(4)
    residuals[rank, 3:, 1:] += 1
    with pytest.raises(ClusterError) as found:
        check_residuals(residuals, HOSTS, [7, 8, 9])
    assert str(found.value) == (
        f"rank {rank} on {HOSTS[rank]} has not the numbers of the others after layer 2 at position 8: its CPU, its "
        "memory or its link makes errors; test that host, or leave it out"
    )


def test_of_two_the_second_is_named_by_its_number_in_the_world() -> None:
    residuals = alike(2)
    residuals[0, 0, 2] += 1
    with pytest.raises(ClusterError, match="rank 3 on d has not the numbers of the other after layer 5 at position 9"):
        check_residuals(residuals, SECOND_STAGE, [7, 8, 9], first_layer=6)
