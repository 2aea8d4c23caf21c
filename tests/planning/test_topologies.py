# python -m pytest tests/planning/test_topologies.py
"""Which of several machines share a model, and how, where the user leaves that to the program."""

import pytest

from dllama_py.cost_model import Link
from dllama_py.errors import UsageError
from dllama_py.formats.shapes import shape_named
from dllama_py.planning.topologies import Choice, choose_topology
from dllama_py.planning.wishes import Links, Node
from tests.planning.households import equal_nodes, kinds_of, node, switch, wishes

QWEN = shape_named("qwen3_8b")  # 4.7 GB


def choice(nodes: list[Node], links: Links | None = None) -> Choice:
    return choose_topology(wishes(QWEN), QWEN, kinds_of(QWEN), nodes, links or switch(len(nodes)))


def test_of_three_equal_machines_two_decode_faster_than_a_pipeline_of_all() -> None:
    plan, lines = choice(equal_nodes(3))
    assert [list(stage.ranks) for stage in plan.stages] == [[0, 1]]
    first, left_out = lines
    assert first.startswith("topology auto: tensor on 2 ranks (") and ", on host0, host1; instead of " in first
    assert "one rank alone (" in first and "a pipeline of " in first
    assert left_out.startswith("rank 2 on host2 left out: with more ranks a token would take ")


def test_four_equal_machines_share_every_layer() -> None:
    plan, lines = choice(equal_nodes(4))
    assert [list(stage.ranks) for stage in plan.stages] == [[0, 1, 2, 3]]
    assert len(lines) == 1 and "left out" not in lines[0]


def test_what_has_no_room_on_two_is_a_pipeline_of_three() -> None:
    plan, lines = choice([node(f"small{rank}", 20, free_gb=2.4) for rank in range(3)])
    assert len(plan.stages) == 3 and all(plan.counts)
    assert lines[0].startswith("topology auto: a pipeline of 3 (") and "tensor" not in lines[0].partition(";")[2]


def test_a_slow_link_leaves_one_machine_alone() -> None:
    slow = [[Link(20e-3, 1e6)] * 2] * 2
    plan, lines = choice(equal_nodes(2), slow)
    assert [list(stage.ranks) for stage in plan.stages] == [[0]]
    assert lines[0].startswith("topology auto: one rank alone (") and lines[1].startswith("rank 1 on host1 left out: ")


def test_a_model_that_fits_in_no_way() -> None:
    with pytest.raises(UsageError, match="does not fit these ranks"):
        choice([node(f"small{rank}", 20, free_gb=0.5) for rank in range(3)])
