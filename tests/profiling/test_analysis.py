# python -m pytest tests/profiling/test_analysis.py
"""Times from stamps that are written by hand."""

import numpy as np
import pytest

from dllama_py.profiling.analysis import exchanges, kernel_times, memory_speeds, step_times
from dllama_py.profiling.timeline import RankTimeline, Span
from dllama_py.stamps import Role, Work
from dllama_py.transport.hosts import Host
from tests.profiling.sessions import NORM, PRODUCT, SUM, SWAP, run, two_ranks


def us(*values: float) -> tuple[float, ...]:
    return tuple(pytest.approx(value * 1e-6) for value in values)


def test_who_came_last_and_what_the_others_waited() -> None:
    first, second = step_times(*two_ranks(), [range(2)])
    (each,) = first.collectives
    assert (each.order, each.last, each.sent_bytes) == ((0, 1), 1, (2304, 2304))
    assert each.waits_s == us(300, 0)
    assert each.transfers_s == us(150, 130)
    assert each.lead_s == pytest.approx(300e-6)
    (each,) = second.collectives
    assert (each.order, each.last) == ((1, 0), 0)
    assert each.waits_s == us(0, 20)
    assert each.transfers_s == us(130, 130)


def test_a_step_is_computing_waiting_transfer_and_what_lies_between_programs() -> None:
    first, second = step_times(*two_ranks(), [range(2)])
    assert first.seconds == pytest.approx(2000e-6)  # to the beginning of the next
    assert second.seconds == pytest.approx(700e-6)  # the last ends with its program
    a, b = first.nodes
    assert (a.compute_s, a.wait_s, a.transfer_s, a.outside_s) == us(550, 300, 150, 1000)
    assert (b.compute_s, b.wait_s, b.transfer_s, b.outside_s) == us(850, 0, 130, 1020)


def test_a_node_that_is_through_before_the_last_began_by_the_clocks_waits_no_longer() -> None:
    ranks = [
        RankTimeline(Host.named("a"), 1, [(SWAP, NORM)], [run([(0, 10), (10, 20)])]),
        RankTimeline(Host.named("b"), 1, [(SWAP, NORM)], [run([(12, 15), (15, 20)])]),
    ]
    (step,) = step_times(ranks, [Span("decode", 1, 0)], [range(2)])
    assert step.collectives[0].transfers_s == us(0, 3)
    assert step.collectives[0].waits_s == us(10, 0)
    assert tuple(node.compute_s for node in step.nodes) == us(10, 5)  # never less than nothing


def test_kernels_of_a_node() -> None:
    (a, _), spans = two_ranks()
    product, norm, barriers = kernel_times(a, spans)
    assert (product.kernel, product.n_calls, product.n_bytes, product.n_macs) == ("matmul_q40", 2, 2_000_000, 4_000_000)
    assert product.busy_s == pytest.approx((450 + 510) * 1e-6)  # means over the threads
    assert (norm.kernel, norm.busy_s) == ("norm", pytest.approx((30 + 50) * 1e-6))
    assert (barriers.kernel, barriers.busy_s) == ("barriers", pytest.approx((50 + 10 + 20) * 1e-6))


def test_all_reduces_stand_between_other_instructions() -> None:
    assert list(exchanges([SWAP, PRODUCT, SWAP, SUM, SWAP, SUM, NORM, SWAP])) == [slice(0, 1), slice(2, 6), slice(7, 8)]
    assert list(exchanges([PRODUCT, NORM])) == []


@pytest.mark.parametrize(("count", "n_bytes", "n_macs"), [(1, 10, 7), (3, 30, 21), (9, 40, 63)])
def test_an_expert_is_read_once_whoever_chose_it(count: int, n_bytes: int, n_macs: int) -> None:
    experts = Work("matmul_q40", Role.WEIGHTS, counter=1, part_bytes=10, most_parts=4, macs=7)
    assert (experts.bytes_read((0, count)), experts.multiplications((0, count))) == (n_bytes, n_macs)


def test_speed_of_memory_is_the_best_try_of_each_rank() -> None:
    stream = Work("read_stream", Role.MEMORY, part_bytes=3000, most_parts=1)
    ranks = [
        RankTimeline(Host.named("a"), 2, [(stream,)], [run([(0, 2)], [(0, 4)]), run([(10, 16)], [(10, 16)])]),
        RankTimeline(Host.named("b"), 1, [(stream,)], [run([(0, 2)])]),
        RankTimeline(Host.named("c"), 1, [(NORM,)], [run([(0, 2)])]),
    ]
    assert memory_speeds(ranks) == [pytest.approx(1e9), pytest.approx(1.5e9), 0.0]


def test_stamps_that_numpy_made_become_plain_numbers() -> None:
    (step, _) = step_times(*two_ranks(), [range(2)])
    assert not any(isinstance(value, np.generic) for value in (*step.collectives[0].arrived_ns, step.seconds))
