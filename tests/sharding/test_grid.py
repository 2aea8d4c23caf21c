# python -m pytest tests/sharding/test_grid.py
import pytest

from dllama_py.errors import UsageError
from dllama_py.sharding.grid import even_split, grid_shards, make_grid
from tests.checkpoints import tiny_config


@pytest.mark.parametrize(
    ("n_layers", "n_stages", "split"),
    [
        (28, 4, (7, 7, 7, 7)),
        (48, 4, (12, 12, 12, 12)),
        (78, 39, (2,) * 39),
        (30, 4, (7, 8, 7, 8)),
        (3, 3, (1, 1, 1)),
        (5, 1, (5,)),
    ],
)
def test_an_even_split(n_layers: int, n_stages: int, split: tuple[int, ...]) -> None:
    assert even_split(n_layers, n_stages) == split


def test_stages_of_two_ranks_have_consecutive_layers() -> None:
    grid = make_grid(10, 4, (6, 4))
    assert [(list(stage.layers), list(stage.ranks)) for stage in grid.stages] == [
        ([0, 1, 2, 3, 4, 5], [0, 1]),
        ([6, 7, 8, 9], [2, 3]),
    ]
    assert grid.topology == "grid"
    assert [grid.number_of(rank) for rank in range(4)] == [0, 0, 1, 1]
    assert grid.ranks_with(3) == range(2, 4)


def test_the_names_of_topologies() -> None:
    assert make_grid(10, 4, (10,)).topology == "tensor"
    assert make_grid(10, 4, (2, 3, 3, 2)).topology == "pipeline"


def test_a_stage_without_layers_is_left_out_but_for_the_roots() -> None:
    grid = make_grid(10, 3, (0, 10, 0))
    assert [stage.leader for stage in grid.stages] == [0, 1]
    assert grid.idle == (2,)
    assert grid.ranks_with(2) == range(2, 3)


def test_shards_of_two_stages() -> None:
    shards = grid_shards(tiny_config(), make_grid(2, 5, (1, 0, 1, 0, 0)))
    assert [list(shard.layers) for shard in shards] == [[0], [], [1], [], []]
    assert [shard.has_head for shard in shards] == [False, False, True, False, False]
    assert {(shard.rank, shard.n_ranks) for shard in shards} == {(0, 1)}


def test_ranks_of_a_stage_share_it_as_in_the_tensor_topology() -> None:
    shards = grid_shards(tiny_config(), make_grid(2, 4, (1, 1)))
    assert [list(shard.heads) for shard in shards] == [[0, 1, 2, 3], [4, 5, 6, 7]] * 2
    assert [shard.rank for shard in shards] == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("n_ranks", "counts", "message"),
    [
        (2, (1, 2), "a split of 1, 2 layers is 3; the model has 2"),
        (2, (3, -1), "a split of 3, -1 layers is 2; the model has 2"),
        (3, (1, 1), "3 ranks do not divide into 2 stages"),
    ],
)
def test_splits_that_cannot_be(n_ranks: int, counts: tuple[int, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_grid(2, n_ranks, counts)


def test_more_stages_than_layers() -> None:
    with pytest.raises(UsageError, match="3 stages cannot share 2 layers; use at most 2 stages"):
        even_split(2, 3)


def test_ranks_behind_those_of_a_stage_are_idle() -> None:
    grid = make_grid(2, 3, (2,), width=2)
    assert (grid.topology, grid.stages[0].ranks, grid.idle) == ("tensor", range(2), (2,))
    shards = grid_shards(tiny_config(), grid)
    assert [len(shard.layers) for shard in shards] == [2, 2, 0]
