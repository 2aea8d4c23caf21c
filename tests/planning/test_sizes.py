# python -m pytest tests/planning/test_sizes.py
"""Sizes of layers: those of the memory plan, and what a token reads of experts."""

import pytest

from dllama_py.blocks import FloatType
from dllama_py.config import ModelConfig
from dllama_py.formats.shapes import shape_named
from dllama_py.model.memory import StepSize, rank_memories
from dllama_py.planning.pricing import make_case
from dllama_py.sharding.grid import grid_shards, make_grid
from tests.planning.households import CATALOGUE, equal_nodes, kinds_of, switch, wishes


@pytest.mark.parametrize("config", [shape_named("qwen3_0.6b"), CATALOGUE["mixtral_8x7b"]], ids=["dense", "mixture"])
@pytest.mark.parametrize("width", [1, 2])
def test_a_stage_needs_what_the_memory_plan_says(config: ModelConfig, width: int) -> None:
    kinds = kinds_of(config) | {"layers.3.down": FloatType.Q80, "layers.3.experts.0.down": FloatType.Q80}
    nodes = equal_nodes(3 * width)
    case = make_case(wishes(config, width=width), config, kinds, nodes, switch(3 * width))
    counts = (6, 2, config.n_layers - 8)
    shards = grid_shards(config, make_grid(config.n_layers, 3 * width, counts))
    needed = rank_memories(config, shards, kinds, 4096, True, StepSize(64, 4, 1, 3))
    places = [(0, 6), (6, 8), (8, config.n_layers)]
    for rank, memory in enumerate(needed):
        assert case.needs_bytes(rank)[places[rank // width]] == memory.total_bytes


def test_a_token_reads_two_experts_of_eight() -> None:
    config = CATALOGUE["mixtral_8x7b"]
    (sizes,) = make_case(wishes(config), config, kinds_of(config), equal_nodes(1), switch(1)).sizes
    attention = (4096 * 4096 * 2 + 4096 * 1024 * 2) * 18 // 32
    expert = 3 * 4096 * 14336 * 18 // 32
    router = 2 * 16 * 4096 * 4 // 2  # eight rows, in memory a group of 16
    assert (
        sum(product.n_bytes * product.n_active for product in sizes.layers[0].products)
        == attention + 2 * expert + router
    )
    assert sizes.layers[0].weights_bytes == attention + 8 * expert + router + 2 * 4096 * 4
