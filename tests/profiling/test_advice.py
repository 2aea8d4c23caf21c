# python -m pytest tests/profiling/test_advice.py
"""What is advised to clusters that are written by hand."""

from dataclasses import replace

import pytest

from dllama_py.config import Arch, ModelConfig
from dllama_py.cost_model import Link, Network
from dllama_py.profiling.advice import Measured, Node, advise, single_machine_s
from dllama_py.transport.hosts import Host

MODEL = ModelConfig(Arch.LLAMA, 1024, 10, 16, 8, 64, 3072, 32000, 4096, 1e-5, 1e4)
FAST = Network((Link(0.00002, 1e9),))
NODE = Node(
    Host.named("a"), shared_s=0.040, whole_s=0.002, wait_s=0.0, transfer_s=0.001, share=0.5, times_last=10, lead_s=0.0
)
PAIR = Measured(MODEL, "f32", 0.043, (NODE, replace(NODE, host=Host.named("b"))), 20, FAST)


def test_two_like_nodes_on_a_fast_link_are_worth_it() -> None:
    advice = advise(PAIR)
    assert (advice.limit, advice.slow_rank, advice.worth_it, advice.better) == ("computing", None, True, None)
    assert advice.single_s == pytest.approx(0.082)
    assert advice.sentence == (
        "Computing is the limit: messages and waits between 2 nodes take 1.00 ms of 43.0 ms a token; "
        "23.3 tok/s on 2 nodes against about 12.2 on the best machine alone (+91%): worth it."
    )


def test_a_slow_node_is_named_with_what_it_costs() -> None:
    quick = replace(NODE, host=Host.named("pc"), shared_s=0.015, wait_s=0.025, times_last=1, lead_s=0.0002)
    slow = replace(NODE, host=Host.named("pi"), shared_s=0.040, times_last=19, lead_s=0.025)
    advice = advise(replace(PAIR, token_s=0.044, nodes=(quick, slow)))
    assert (advice.slow_rank, advice.limit, advice.worth_it) == (1, "waiting", False)
    assert advice.sentence.startswith(
        "Rank 1 on pi holds the others back: last in 19 of 20 all-reduces, they wait 25.0 ms of a 44.0 ms token for "
        "it; "
        "waiting for each other is the limit: 12.5 ms of 44.0 ms a token, the messages themselves 1.00 ms; "
    )
    assert advice.single_s == pytest.approx(0.032)  # pc would be faster alone
    assert advice.sentence.endswith(
        "22.7 tok/s on 2 nodes against about 31.2 on the best machine alone (-27%): "
        "not worth it below +20%, unless one has no room for it."
    )


@pytest.mark.parametrize(("times_last", "lead_s"), [(11, 0.025), (19, 0.002)])
def test_a_node_that_is_seldom_last_or_hardly_late_holds_nobody_back(times_last: int, lead_s: float) -> None:
    late = replace(NODE, times_last=times_last, lead_s=lead_s)
    assert advise(replace(PAIR, nodes=(NODE, late))).slow_rank is None


def test_a_link_whose_delays_cost_most() -> None:
    node = replace(NODE, transfer_s=0.044)
    wifi = Network((Link(0.002, 1e8),))
    advice = advise(replace(PAIR, token_s=0.086, nodes=(node, replace(node, host=Host.named("b"))), network=wifi))
    assert (advice.limit, advice.worth_it, advice.better) == ("latency", False, None)
    assert (
        "he link's latency (2000 us) is the limit: 44.0 ms of 86.0 ms a token are messages, "
        "by the link's own figures 42.0 ms of delay and 0.86 ms of bytes"
    ) in advice.sentence
    assert advice.gain == pytest.approx(0.082 / 0.086 - 1)


def test_latency_that_makes_one_node_faster() -> None:
    node = replace(NODE, transfer_s=0.084)
    wifi = Network((Link(0.004, 1e8),))
    advice = advise(replace(PAIR, token_s=0.126, nodes=(node, replace(node, host=Host.named("b"))), network=wifi))
    assert advice.better is not None and advice.better.n_nodes == 1
    assert advice.better_s == advice.single_s
    assert "1 node would give about" in advice.sentence


def test_a_link_whose_rate_costs_most_asks_for_a_smaller_exchange() -> None:
    node = replace(NODE, transfer_s=0.0083)
    slow = Network((Link(0.00005, 1e7),))
    advice = advise(replace(PAIR, token_s=0.0505, nodes=(node, replace(node, host=Host.named("b"))), network=slow))
    assert advice.limit == "rate"
    assert advice.better is not None and (advice.better.n_nodes, advice.better.exchange) == (2, "q80")
    sync_s, less_sync_s = 0.00105 + 0.008612, 0.00105 + 0.002596
    assert advice.better_s == pytest.approx(0.0505 - 0.0083 * (1 - less_sync_s / sync_s))
    assert "he link's rate (10 MB/s) is the limit" in advice.sentence
    assert "2 nodes" not in advice.sentence.split(";")[1]
    assert "--buffer-float-type q80 would give about" in advice.sentence
    assert advice.worth_it


def test_one_node_is_told_what_it_does() -> None:
    advice = advise(Measured(MODEL, "f32", 0.05, (replace(NODE, share=1.0, transfer_s=0.0),), 0, None))
    assert (advice.slow_rank, advice.worth_it, advice.better) == (None, False, None)
    assert advice.sentence == "One node computes 50.0 ms a token; nothing is exchanged."


def test_ranks_of_one_machine_are_compared_with_all_of_it() -> None:
    together = replace(PAIR, nodes=(NODE, NODE))
    assert single_machine_s(together.nodes) == pytest.approx(0.042)  # 80 ms of work by both, and 2 ms
    advice = advise(together)
    assert advice.sentence.endswith("(-2%): not worth it, all nodes are one machine here.")
    assert not advice.worth_it


def test_messages_that_take_far_longer_than_the_link_needs() -> None:
    node = replace(NODE, transfer_s=0.020)
    advice = advise(replace(PAIR, token_s=0.062, nodes=(node, replace(node, host=Host.named("b")))))
    assert advice.limit == "waiting"
    assert advice.sentence.startswith(
        "Messages come late to busy processors: 20.0 ms of 62.0 ms a token, where the link needs 0.51 ms; end other "
        "programs, use fewer threads; "
    )
