# make test-mpi-4, or: mpirun -np 4 python -m pytest --with-mpi tests/mpi/test_transport.py
import os
import time

import numpy as np
import pytest

from dllama_py.errors import ClusterError, InputError
from dllama_py.transport.comm import Comm
from dllama_py.transport.failure import AgreedFailure, agreed
from dllama_py.transport.metered import MeteredComm
from dllama_py.transport.mpi import MpiComm
from dllama_py.wire import WireWord
from tests.support.all_reduce import ReadyAllReduce, Way, all_reduced
from tests.support.tree import naive_tree, parts_of_ranks

pytestmark = pytest.mark.mpi

LENGTHS = (32, 64, 576, 1024, 4128, 16384, 100_000)
WAYS: list[Way] = ["doubling", "halving_and_doubling"]


@pytest.mark.parametrize("exchange", ["f32", "bf16", "q80"])
@pytest.mark.parametrize("way", WAYS)
def test_all_reduce_gives_the_bits_of_the_naive_tree(comm: Comm, exchange: str, way: Way) -> None:
    for n_values in LENGTHS:
        parts = parts_of_ranks(comm.size, n_values, exchange)
        summed = all_reduced(comm, parts[comm.rank], exchange, way)
        assert summed.tobytes() == naive_tree(parts, exchange).tobytes(), n_values


@pytest.mark.mpi(sizes=(4,))
@pytest.mark.parametrize("way", WAYS)
def test_neighbours_first_a_thousand_times(comm: Comm, way: Way) -> None:
    all_reduce = ReadyAllReduce(comm, 256, "f32", way)
    for _ in range(int(os.environ.get("DLLAMA_SOAK_ROUNDS", "1000"))):
        all_reduce.values[...] = (1e8, 1, -1e8, 1)[comm.rank]
        all_reduce()
        assert not all_reduce.values.any()  # left to right by rank it would be 1


@pytest.mark.mpi(sizes=(2, 4, 8))
@pytest.mark.parametrize(("expected", "finding"), [(64, "longer than expected"), (160, "512 bytes where 640 were")])
def test_compiled_code_finds_a_message_of_another_length(comm: Comm, expected: int, finding: str) -> None:
    """Odd ranks expect what even ones do not send."""
    own = MpiComm()  # whose wire the trouble does not outlive
    if comm.rank % 2 == 0:
        own.exchange(np.zeros(128, np.float32), np.empty(expected, np.float32), comm.rank ^ 1)
        return
    with pytest.raises(ClusterError, match=f"{finding}.*the ranks run different programs or settings"):
        ReadyAllReduce(own, expected, "f32", "doubling")()


@pytest.mark.mpi(sizes=(2,))
def test_compiled_code_gives_up_a_rank_without_a_sign_of_life(comm: Comm) -> None:
    hasty = MpiComm(patience_s=0.5)
    if comm.rank == 1:
        time.sleep(1.5)
        comm.exchange(np.zeros(32, np.float32), np.empty(32, np.float32), 0)
    elif comm.rank == 0:
        with pytest.raises(ClusterError, match="no sign of life from rank 1 on .* for"):
            ReadyAllReduce(hasty, 32, "f32", "doubling")()
    comm.barrier()


@pytest.mark.mpi(sizes=(2, 4, 8))
def test_messages_above_the_limit_go_in_pieces(comm: Comm) -> None:
    pieces = MpiComm(chunk_bytes=1024)
    message = np.random.default_rng(1).integers(0, 256, (1 << 20) + 1, np.uint8)
    received = np.zeros_like(message)
    if comm.rank == 0:
        pieces.send(message, 1)
    elif comm.rank == 1:
        pieces.recv(received, 0)
        assert received.tobytes() == message.tobytes()

    spread = message.copy() if comm.rank == 0 else np.zeros_like(message)
    pieces.broadcast(spread)
    assert spread.tobytes() == message.tobytes()
    spread[...] = message if comm.rank == comm.size - 1 else 0
    pieces.broadcast_idle(spread, root=comm.size - 1)
    assert spread.tobytes() == message.tobytes()

    partner = comm.rank ^ 1
    n_own, n_partner = 5000 + comm.rank, 5000 + partner  # unequal lengths
    received[...] = 0
    pieces.exchange(message[:n_own], received[:n_partner], partner)
    assert received[:n_partner].tobytes() == message[:n_partner].tobytes()
    assert not received[n_partner:].any()


@pytest.mark.mpi(sizes=(2, 4, 8))
@pytest.mark.parametrize("way", ["exchange", "recv", "exchange in pieces"])
@pytest.mark.parametrize(
    ("expected", "finding"), [(4500, "longer than expected"), (5100, "5000 bytes where 5100|904 bytes where 1004")]
)
def test_a_message_of_another_length_is_a_difference_of_programs(
    comm: Comm, way: str, expected: int, finding: str
) -> None:
    """Odd ranks expect what even ones do not send."""
    pieces = MpiComm(chunk_bytes=1024 if way == "exchange in pieces" else 10_000)
    message, partner = np.zeros(5000, np.uint8), comm.rank ^ 1

    def meet(buffer: np.ndarray) -> None:
        if way == "recv" and comm.rank % 2:
            pieces.recv(buffer, partner)
        elif way == "recv":
            pieces.send(message, partner)
        else:
            pieces.exchange(message, buffer, partner)

    if comm.rank % 2 == 0:
        meet(np.empty(5000, np.uint8))
        return
    with pytest.raises(ClusterError, match=f"({finding}).*the ranks run different programs or settings"):
        meet(np.empty(expected, np.uint8))


def test_gather_takes_unequal_buffers(comm: Comm) -> None:
    own = np.full(comm.rank + 1, comm.rank, np.int32)
    parts = [np.full(rank + 1, -1, np.int32) for rank in range(comm.size)]
    comm.gather(own, parts if comm.rank == 0 else None)
    if comm.rank == 0:
        assert [part.tolist() for part in parts] == [[rank] * (rank + 1) for rank in range(comm.size)]


def test_an_empty_message_is_a_message(comm: Comm) -> None:
    comm.broadcast(np.empty(0, np.float32))
    comm.gather(np.empty(0, np.float32), [np.empty(0, np.float32)] * comm.size if comm.rank == 0 else None)


def test_every_rank_knows_all_hosts(comm: Comm) -> None:
    assert len(comm.hosts) == comm.size
    assert all(comm.hosts)


@pytest.mark.mpi(sizes=(2, 4))
def test_traffic_is_counted(comm: Comm) -> None:
    metered = MeteredComm(comm)
    all_reduce = ReadyAllReduce(metered, 1024, "q80", "doubling")
    before = metered.traffic
    all_reduce()
    used = metered.traffic - before
    steps = {2: 1, 4: 2}[comm.size]
    assert (used.sent_bytes, used.received_bytes, used.messages) == (steps * 1088, steps * 1088, steps)
    assert 0 < used.seconds < 10
    assert used.seconds == pytest.approx(1e-9 * comm.wire[WireWord.NANOSECONDS] - before.seconds)


@pytest.mark.mpi(sizes=(4,))
def test_an_idle_rank_leaves_its_core(comm: Comm) -> None:
    token = np.zeros(4, np.uint8)
    comm.barrier()
    started, burnt = time.monotonic(), time.process_time()
    if comm.rank == 0:
        time.sleep(1.5)
        token[...] = 1, 2, 3, 4
    comm.broadcast_idle(token)
    assert token.tolist() == [1, 2, 3, 4]
    assert (time.process_time() - burnt) / (
        time.monotonic() - started
    ) < 0.3  # who looks without a pause takes all of it


@pytest.mark.mpi(sizes=(2, 4))
def test_ranks_agree_on_a_failure_of_one(comm: Comm) -> None:
    def step() -> None:
        with agreed(comm):
            if comm.rank == 1:
                raise InputError("the file is short")

    with pytest.raises(AgreedFailure if comm.rank == 1 else SystemExit) as caught:
        step()
    if comm.rank != 1:
        assert caught.value.code == 2


def test_agreement_without_failure_goes_on(comm: Comm) -> None:
    with agreed(comm):
        pass
