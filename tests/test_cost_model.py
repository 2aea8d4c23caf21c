# python -m pytest tests/test_cost_model.py
import pytest

from dllama_py.config import Arch, ModelConfig
from dllama_py.cost_model import (
    Compute,
    Link,
    Messages,
    Network,
    Step,
    all_reduce,
    doubling,
    forecast,
    forecasts,
    halving,
    seconds,
)

MODEL = ModelConfig(Arch.LLAMA, 1024, 10, 16, 8, 64, 3072, 32000, 4096, 1e-5, 1e4)
MEGABYTE_A_SECOND = Network((Link(0.001, 1e6),))


def test_doubling_sends_the_whole_vector_at_every_distance() -> None:
    assert doubling(4096, 1) == ()
    assert doubling(4096, 2) == (Messages(1, 4096),)
    assert doubling(4096, 8) == (Messages(1, 4096), Messages(1, 4096), Messages(1, 4096))


def test_halving_sends_2_n_minus_1_of_n_parts() -> None:
    assert halving(4096, 2) == (Messages(2, 4096),)
    assert halving(4096, 4) == (Messages(2, 4096), Messages(2, 2048))
    assert sum(messages.n_bytes for messages in halving(4096, 8)) == 2 * 4096 * 7 // 8


@pytest.mark.parametrize(("n_values", "way"), [(8191, doubling(5000, 4)), (8192, halving(5000, 4))])
def test_long_vectors_go_the_way_of_few_bytes(n_values: int, way: tuple[Messages, ...]) -> None:
    assert all_reduce(n_values, 5000, 4) == way


def test_two_nodes_need_one_exchange() -> None:
    assert all_reduce(1 << 20, 1 << 22, 2) == doubling(1 << 22, 2)


def test_each_distance_has_its_own_link() -> None:
    network = Network((Link(0.001, 1e6), Link(0.01, 1e5)))
    assert seconds(doubling(1000, 4), network) == pytest.approx((0.011, 0.011))
    assert seconds(doubling(1000, 8), network) == pytest.approx((0.021, 0.021))  # 4 apart as 2 apart


def test_a_token_on_two_nodes() -> None:
    found = forecast(MODEL, Step(), Compute(0.020, 0.003), MEGABYTE_A_SECOND, 2, "f32")
    assert found.compute_s == pytest.approx(0.013)
    assert found.latency_s == pytest.approx(0.021)  # 20 sums, 1 row from the root
    assert found.wire_s == pytest.approx(20 * 0.004096 + 0.0042)
    assert found.sync_s == pytest.approx(found.latency_s + found.wire_s)
    assert found.seconds == pytest.approx(0.013 + found.sync_s)


def test_what_nodes_tell_the_root_comes_in_along_a_tree() -> None:
    quiet, telling = (
        forecast(MODEL, Step(1, answer), Compute(0, 0), MEGABYTE_A_SECOND, 4, "f32") for answer in (0, 1000)
    )
    assert telling.latency_s - quiet.latency_s == pytest.approx(0.002)
    assert telling.wire_s - quiet.wire_s == pytest.approx(0.003)


@pytest.mark.parametrize(("exchange", "wire_s"), [("f32", 0.4096), ("bf16", 0.2048), ("q80", 0.1088)])
def test_rounded_exchange_sends_less(exchange: str, wire_s: float) -> None:
    row = (104 + 4096 * 5) / 1e6  # embedded rows stay float32
    found = forecast(MODEL, Step(n_rows=5), Compute(0, 0), MEGABYTE_A_SECOND, 2, exchange)
    assert found.wire_s == pytest.approx(wire_s + row)


def test_one_node_exchanges_nothing_and_stands_once() -> None:
    found = forecasts(MODEL, Compute(0.02, 0.0), MEGABYTE_A_SECOND, (1, 2), ("f32", "q80"))
    assert [(each.n_nodes, each.exchange) for each in found] == [(1, "f32"), (2, "f32"), (2, "q80")]
    assert (found[0].seconds, found[0].sync_s) == (0.02, 0.0)


def test_a_shaped_link_lets_the_head_of_each_message_pass() -> None:
    shaped = Network((Link(0.001, 1e6, head_start_bytes=600),))
    assert seconds(doubling(1000, 2), shaped) == pytest.approx((0.001, 0.0004))
    assert seconds(halving(1000, 2), shaped) == pytest.approx((0.002, 0.0))
