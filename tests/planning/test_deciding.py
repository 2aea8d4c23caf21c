# python -m pytest tests/planning/test_deciding.py
"""Plans for households: equal machines, unlike ones, too small ones; given splits and refusals."""

import time
from dataclasses import replace

import pytest

from dllama_py.cost_model import Link
from dllama_py.errors import UsageError
from dllama_py.formats.shapes import shape_named
from dllama_py.planning.deciding import decide
from dllama_py.planning.plan import Plan
from dllama_py.planning.wishes import Node
from tests.planning.households import CATALOGUE, LAN, equal_nodes, kinds_of, node, switch, wishes

QWEN = shape_named("qwen3_8b")  # 36 layers of 0.11 GB, a head of 0.35 GB, in a context of 4096 another 0.017 GB each


def plan(nodes: list[Node], **others: object) -> Plan:
    return decide(wishes(QWEN, **others), QWEN, kinds_of(QWEN), nodes, switch(len(nodes)))


def refusal(nodes: list[Node], **others: object) -> str:
    with pytest.raises(UsageError) as caught:
        plan(nodes, **others)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "each"),
    [("qwen2_57b_a14b", 7), ("mixtral_8x22b", 14), ("mixtral_8x7b", 8), ("deepseek_r1_distill_14b", 12)],
)
def test_equal_stages_for_four_equal_nodes(name: str, each: int) -> None:
    config = CATALOGUE[name]
    found = decide(wishes(config), config, kinds_of(config), equal_nodes(4), switch(4))
    assert found.counts == (each,) * 4
    assert [list(stage.layers)[:1] for stage in found.stages] == [[0], [each], [2 * each], [3 * each]]
    assert found.notes == ()


def test_39_nodes_with_two_layers_each() -> None:
    config = replace(shape_named("llama3_3_70b_instruct"), n_layers=78)
    started = time.process_time()
    assert decide(wishes(config), config, kinds_of(config), equal_nodes(39), switch(39)).counts == (2,) * 39
    assert time.process_time() - started < 30  # seconds; a search that is not dynamic programming would never end


def test_what_is_foretold() -> None:
    found = plan(equal_nodes(2))
    assert found.counts == (18, 18)
    q40_layer = (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 12288) * 18 // 32
    head = 151936 * 4096 * 18 // 32
    layers_s = 18 * (q40_layer / 20e9 + 20e-6) + 0.5e-3
    assert found.stages[0].token_s == pytest.approx(layers_s)
    assert found.stages[1].token_s == pytest.approx(layers_s + head / 20e9)
    hops = 2 * LAN.latency_s + (64 + 4 * 4096 + 2048) / LAN.bytes_per_s + 4 * 0.5e-3  # the Python of their ends
    assert found.hops_s == pytest.approx(hops)
    assert found.token_s == pytest.approx(2 * layers_s + head / 20e9 + hops + 0.5e-3)  # the root's own work
    assert found.stages[0].cache_bytes == 18 * 2 * 4096 * 8 * 128 * 2


def test_a_pipe_of_two_takes_a_prompt_nearly_twice_as_fast() -> None:
    alone, two = plan(equal_nodes(1)), plan(equal_nodes(2))
    assert 1.7 < two.prefill_tok_s / alone.prefill_tok_s < 2
    assert two.chunk_rows == alone.chunk_rows == 64 and plan(equal_nodes(4)).chunk_rows == 32


def test_a_slow_machine_is_left_out_and_the_reason_told() -> None:
    found = plan([node("desk", 40), node("laptop", 36), node("pi", 4)])
    assert found.counts[2] == 0 and found.counts[1] > 0
    (note,) = found.notes
    assert note.startswith("rank 2 on pi left out: a token would take ") and " ms with it instead of " in note


def test_what_a_split_would_gain_that_uses_a_machine_left_out() -> None:
    shape = shape_named("qwen3_0.6b")
    small = wishes(shape)
    found = decide(small, shape, kinds_of(shape), equal_nodes(2), switch(2))
    used = decide(replace(small, split="14,14"), shape, kinds_of(shape), equal_nodes(2), switch(2))
    assert found.counts == (28, 0)  # two hops are much of a small model's token
    gain = f"for prompts of {used.prefill_tok_s:.0f} tokens/s instead of {found.prefill_tok_s:.0f}"
    assert found.notes[0].endswith(f"; --split 14,14 uses it, {gain}")
    four = decide(replace(small, n_slots=4), shape, kinds_of(shape), equal_nodes(2), switch(2))
    assert four.notes == () and four.counts[0] > four.counts[1] > 0  # each step pays the head on the last stage
    assert (
        four.together_s
        < decide(replace(small, n_slots=4, split="28,0"), shape, kinds_of(shape), equal_nodes(2), switch(2)).together_s
    )


def test_layers_that_fit_nowhere_else_go_to_the_slow_machine() -> None:
    found = plan([node("desk", 40, 3.0), node("pi", 4, 8.0)])
    assert found.counts[1] > 0 and found.stages[0].needs_bytes <= 3e9
    one_more = found.stages[0].weights_bytes // found.counts[0]
    assert found.stages[0].needs_bytes + one_more > 3e9  # not one layer more than it must


def test_ranks_of_one_host_share_its_memory() -> None:
    line = refusal([node("desk", 20, 4.0), node("desk", 20, 4.0)])
    assert line.startswith("the model does not fit these ranks with a context of 4096: stage 0 on desk layers 0 to ")
    assert "have no room; what helps: a smaller --max-seq-len" in line
    assert plan([node("desk", 20, 7.0), node("desk", 20, 7.0)]).counts == (18, 18)
    grid = plan([node("desk", 20, 12.0)] * 4, width=2, split="18,18")
    assert [stage.free_bytes for stage in grid.stages] == [3 * 10**9] * 2  # of the rank that needs most
    assert "stage 1: layers 18 to 35 need " in refusal([node("desk", 20, 4.0)] * 4, width=2, split="18,18")


def test_a_given_split_is_honoured_or_refused_with_layers_and_bytes() -> None:
    unlike = [node("desk", 40), node("pi", 4, 1.0)]
    assert plan(unlike, split="34,2").counts == (34, 2)
    assert refusal(unlike, split="18,18") == (
        "stage 1: layers 18 to 35 need 2.9 GB of memory on rank 1 on pi with their cache and buffers, "
        "1.0 GB are free there; expected at most 2 there, or --split auto"
    )


def test_slow_links_keep_layers_together() -> None:
    wifi = switch(2, Link(0.02, 2e6))
    assert decide(wishes(QWEN), QWEN, kinds_of(QWEN), equal_nodes(2), wifi).counts == (36, 0)


def test_a_grid_of_two_stages_of_two() -> None:
    found = plan(equal_nodes(4), width=2)
    assert found.counts == (18, 18) and [stage.ranks for stage in found.stages] == [(0, 1), (2, 3)]
    assert plan(equal_nodes(2)).stages[0].token_s > found.stages[0].token_s  # half the weights each, and the sums


def test_machines_that_measure_alike_get_equal_stages() -> None:
    found = plan([node("a", 20.0), node("b", 21.5), node("c", 20.9)])
    assert found.counts == (12, 12, 12)
    assert [stage.chunk_s for stage in found.stages] == pytest.approx([found.stages[0].chunk_s] * 3)
    assert plan([node("a", 20.0), node("b", 24.0)]).counts[1] > 18


def test_ranks_of_a_host_that_compute_at_once_take_longer_for_a_prompt() -> None:
    crowded = [replace(each, speed=replace(each.speed, crowd=2.0)) for each in [node("a", 20.0), node("a", 20.0)]]
    both, one, apart = plan(crowded, split="18,18"), plan(crowded, split="36,0"), plan(equal_nodes(2), split="36,0")
    assert both.stages[0].chunk_s == pytest.approx(2 * one.stages[0].chunk_s / 2, rel=0.02)
    assert one.stages[0].chunk_s == apart.stages[0].chunk_s
