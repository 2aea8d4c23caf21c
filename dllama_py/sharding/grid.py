"""Which layers are where: stages of consecutive layers, each of them shared by ranks as in plan.py.

One stage is the tensor topology, stages of one rank each are the pipeline topology, anything else is a grid of both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from dllama_py.config import ModelConfig
from dllama_py.errors import UsageError
from dllama_py.sharding.plan import Shard, make_plan

ON_THEIR_WAY = 2  # steps that are between stages while each has one in hand


@dataclass(frozen=True, slots=True)
class Stage:
    """Consecutive layers and the ranks of the world that share them; the first of these leads."""

    layers: range
    ranks: range

    @property
    def leader(self) -> int:
        return self.ranks.start


@dataclass(frozen=True, slots=True)
class Grid:
    """All stages, in the order of their layers. Ranks that belong to none hold nothing and are idle."""

    stages: tuple[Stage, ...]
    n_ranks: int

    @property
    def topology(self) -> str:
        """As users know it."""
        if len(self.stages) == 1:
            return "tensor"
        return "pipeline" if len(self.stages[0].ranks) == 1 else "grid"

    def number_of(self, rank: int) -> int | None:
        """Of the stage of a rank; None if it is idle."""
        return next((number for number, stage in enumerate(self.stages) if rank in stage.ranks), None)

    @property
    def idle(self) -> tuple[int, ...]:
        return tuple(rank for rank in range(self.n_ranks) if self.number_of(rank) is None)

    def owners(self, n_leaves: int) -> NDArray[np.int64]:
        """int64 [layers, leaves]: the rank that computes a leaf of a layer."""
        leaves = np.arange(n_leaves)
        rows = [
            stage.ranks.start + leaves * len(stage.ranks) // n_leaves for stage in self.stages for _ in stage.layers
        ]
        return np.array(rows, np.int64).reshape(-1, n_leaves)

    def ranks_with(self, rank: int) -> range:
        """Of the stage of a rank; an idle one is alone."""
        number = self.number_of(rank)
        return range(rank, rank + 1) if number is None else self.stages[number].ranks


def make_grid(n_layers: int, n_ranks: int, layer_counts: Sequence[int], width: int | None = None) -> Grid:
    """Ranks divided evenly among stages of so many layers. A stage of none is left out, but for the root's. `width`:
    ranks of a stage, if some at the end are to be idle.

    UsageError where the counts are not the model's layers, or the ranks do not divide.
    """
    n_stages = len(layer_counts)
    if sum(layer_counts) != n_layers or min(layer_counts) < 0:
        raise UsageError(
            f"a split of {', '.join(map(str, layer_counts))} layers is {sum(layer_counts)}; the model has {n_layers}"
        )
    if width is None and n_ranks % n_stages:
        raise UsageError(
            f"{n_ranks} ranks do not divide into {n_stages} stages; use a number of stages that divides {n_ranks}"
        )
    width = width or n_ranks // n_stages
    borders = [0, *accumulate(layer_counts)]
    stages = (
        Stage(range(start, stop), range(number * width, (number + 1) * width))
        for number, (start, stop) in enumerate(pairwise(borders))
    )
    return Grid(tuple(stage for stage in stages if stage.layers or stage.leader == 0), n_ranks)


def steps_in_flight(n_stages: int) -> int:
    """Of which the answers are wanted, at most."""
    return n_stages + ON_THEIR_WAY if n_stages > 1 else 1


def answers_on_their_way(n_stages: int) -> int:
    """At most, those of void steps included: as many of these may precede the others."""
    return 2 * steps_in_flight(n_stages)


def even_split(n_layers: int, n_stages: int) -> tuple[int, ...]:
    """Layers of each stage, as equal as can be. UsageError where there are more stages than layers."""
    if n_stages > n_layers:
        raise UsageError(f"{n_stages} stages cannot share {n_layers} layers; use at most {n_layers} stages")
    borders = [n_layers * number // n_stages for number in range(n_stages + 1)]
    return tuple(stop - start for start, stop in pairwise(borders))


def grid_shards(config: ModelConfig, grid: Grid, replicate_kv: bool = False) -> list[Shard]:
    """The shards of all ranks of the world. UsageError when a stage cannot be shared by its ranks."""
    (whole,) = make_plan(config, 1)
    shards = [replace(whole, layers=range(0), has_head=False)] * grid.n_ranks
    for stage in grid.stages:
        for rank, shard in zip(stage.ranks, make_plan(config, len(stage.ranks), replicate_kv), strict=True):
            shards[rank] = replace(shard, layers=stage.layers, has_head=stage is grid.stages[-1])
    return shards
