# python -m pytest tests/transport/test_link.py
import pytest

from dllama_py.cost_model import Link, Network
from dllama_py.transport.comm import Buffer, Comm, SoloComm
from dllama_py.transport.link import measure_links, measure_network, measure_pairs, opponents, slowest
from tests.support.threads import ThreadComm, run_ranks

LINKS = {1: Link(0.0002, 1e8), 2: Link(0.003, 1e6)}  # by distance; between ranks 1 and 3 twice as slow


class TimedComm:
    """Adds to a clock of its own what each exchange would take on the links above."""

    def __init__(self, comm: ThreadComm) -> None:
        self._comm = comm
        self.rank, self.size = comm.rank, comm.size
        self.gather, self.broadcast_idle = comm.gather, comm.broadcast_idle
        self.now_s = 0.0

    def exchange(self, send: Buffer, receive: Buffer, partner: int) -> None:
        self._comm.exchange(send, receive, partner)
        link = LINKS.get(self.rank ^ partner, LINKS[2])
        factor = 2 if {self.rank, partner} == {1, 3} else 1
        self.now_s += factor * (link.latency_s + (send.nbytes - 64) / link.bytes_per_s)


def test_every_rank_learns_every_link() -> None:
    def work(comm: Comm) -> list[list[Link]]:
        timed = TimedComm(comm)  # type: ignore[arg-type]
        return measure_links(timed, lambda: timed.now_s)  # type: ignore[arg-type]

    found, *others = run_ranks(4, work)
    assert others == [found] * 3
    near, far = found
    assert [(link.latency_s, link.bytes_per_s) for link in near] == [pytest.approx((0.0002, 1e8))] * 4
    assert [link.latency_s for link in far] == pytest.approx([0.003, 0.006, 0.003, 0.006])
    assert [link.bytes_per_s for link in far] == pytest.approx([1e6, 0.5e6, 1e6, 0.5e6])


def test_a_distance_is_as_slow_as_its_slowest_pair() -> None:
    rows = [[Link(1.0, 100.0), Link(1.5, 120.0)], [Link(3.0, 30.0), Link(2.0, 20.0)]]
    assert slowest(rows) == Network((Link(1.5, 100.0), Link(3.0, 20.0)))


def test_one_rank_has_no_links() -> None:
    assert measure_network(SoloComm()) == Network(())


def test_only_whole_trees() -> None:
    with pytest.raises(ValueError, match="a tree over 3 ranks"):
        run_ranks(3, measure_network)


@pytest.mark.parametrize("n_ranks", [2, 3, 4])
def test_all_pairs_of_any_number_of_ranks(n_ranks: int) -> None:
    def work(comm: Comm) -> list[list[Link]]:
        timed = TimedComm(comm)  # type: ignore[arg-type]
        return measure_pairs(timed, lambda: timed.now_s)  # type: ignore[arg-type]

    found, *others = run_ranks(n_ranks, work)
    assert others == [found] * (n_ranks - 1)
    for rank, row in enumerate(found):
        assert row[rank] == Link(0.0, float("inf"))
        for other, link in enumerate(row):
            near = LINKS.get(rank ^ other, LINKS[2]) if rank != other else row[rank]
            factor = 2 if {rank, other} == {1, 3} else 1
            assert link.latency_s == pytest.approx(near.latency_s * factor)


@pytest.mark.parametrize("n_ranks", range(1, 12))
def test_everybody_meets_everybody_once(n_ranks: int) -> None:
    rounds = list(zip(*(opponents(rank, n_ranks) for rank in range(n_ranks)), strict=True))
    assert len(rounds) == n_ranks - 1 + n_ranks % 2
    for met in rounds:
        assert [met[other] for other in met] == list(range(n_ranks))
    assert all({met[rank] for met in rounds} >= set(range(n_ranks)) - {rank} for rank in range(n_ranks))
