# make test-mpi-4, or: mpirun -np 5 python -m pytest --with-mpi tests/mpi/test_hop.py
"""Messages between stages over MPI: a ring of ranks, each hearing the one before it."""

import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from dllama_py.activations import ActivationType
from dllama_py.errors import ClusterError
from dllama_py.kernels.crc32c import crc32c
from dllama_py.profiler import private_bytes
from dllama_py.transport.comm import Comm
from dllama_py.transport.hop import HopFormat, HopReceiver, HopSender
from dllama_py.transport.metered import MeteredComm
from dllama_py.transport.mpi import MpiComm
from tests.support.collections import noted_collections
from tests.support.threads import SentRequest

SIZES = (2, 4, 5, 8)
pytestmark = pytest.mark.mpi(sizes=SIZES)

SMALL = HopFormat(ActivationType.F32, width=64, max_rows=64, max_words=128)
LARGE = HopFormat(ActivationType.F32, width=1024, max_rows=64, max_words=128)  # beyond what MPI sends at once
N_MESSAGES, N_WARM = 2000, 200


@contextmanager
def ring(comm: Comm, form: HopFormat = SMALL, n_buffers: int = 2) -> Iterator[tuple[HopSender, HopReceiver]]:
    receiver = HopReceiver(comm, (comm.rank - 1) % comm.size, form, crc32c, n_buffers)
    sender = HopSender(comm, (comm.rank + 1) % comm.size, form, crc32c, n_buffers)
    try:
        yield sender, receiver
        sender.close()
        comm.barrier()
    finally:
        receiver.close()


def send_rows(sender: HopSender, step: int, n_rows: int) -> None:
    rows = sender.begin(step % 7, step, [step, -n_rows], n_rows)
    rows.view(np.float32)[:] = np.arange(rows.size // 4) + step
    sender.send()


def check_rows(receiver: HopReceiver, step: int, n_rows: int) -> None:
    message = receiver.receive()
    assert (message.kind, message.step, message.n_rows) == (step % 7, step, n_rows)
    assert message.words.tolist() == [step, -n_rows]
    floats = message.activations.view(np.float32)
    assert np.array_equal(floats, np.arange(floats.size, dtype=np.float32) + step)


@pytest.mark.parametrize("form", [SMALL, LARGE], ids=["small", "large"])
def test_messages_of_every_number_of_rows_go_down_the_chain(comm: Comm, form: HopFormat) -> None:
    """The root's messages, handed on by each rank, come back to it."""
    sizes = [0, 1, 2, 31, form.max_rows, 1, 3]
    with ring(comm, form) as (sender, receiver):
        for step, n_rows in enumerate(sizes):
            if comm.rank == 0:
                send_rows(sender, step, n_rows)
            check_rows(receiver, step, n_rows)
            if comm.rank != 0:
                send_rows(sender, step, n_rows)


@pytest.mark.parametrize("form", [SMALL, LARGE], ids=["small", "large"])
@pytest.mark.parametrize("n_buffers", [1, 2, 4])
def test_a_slow_receiver_gets_all_messages_whole(comm: Comm, form: HopFormat, n_buffers: int) -> None:
    with ring(comm, form, n_buffers) as (sender, receiver):
        if comm.rank == 0:
            for step in range(12):
                send_rows(sender, step, 1 + 21 * (step % 4))
        elif comm.rank == 1:
            for step in range(12):
                time.sleep(0.002)
                check_rows(receiver, step, 1 + 21 * (step % 4))


def test_all_send_before_they_receive(comm: Comm) -> None:
    """Two buffers are two messages under way, whatever their length."""
    with ring(comm, LARGE) as (sender, receiver):
        for round_ in range(3):
            send_rows(sender, round_, 64)
            check_rows(receiver, round_, 64)


def spoil(comm: Comm, message: np.ndarray, form: HopFormat = SMALL) -> None:
    """Rank 0 sends these bytes, rank 1 asks for a message."""
    if comm.rank == 0:
        comm.start_send(message, 1).wait()
    elif comm.rank == 1:
        receiver = HopReceiver(comm, 0, form, crc32c)
        try:
            receiver.receive()
        finally:
            receiver.close()


def good_message() -> np.ndarray:
    class Paper:
        """Keeps what is sent."""

        def start_send(self, buffer: np.ndarray, to: int) -> SentRequest:
            self.message = buffer.copy()
            return SentRequest(buffer.nbytes)

    paper = Paper()
    send_rows(HopSender(paper, 1, SMALL, crc32c), 0, 2)
    return paper.message


@pytest.mark.parametrize(
    ("start", "end", "changed", "finding"),
    [
        (0, None, 0, None),
        (0, 300, 0, r"has 300 bytes, expected 64 \+ 16 \+ 512"),
        (0, 3, 0, "has 3 bytes, expected a header"),
        (0, None, 4, "is of version 254, expected 1"),
        (0, None, 0, None),
        (0, None, 90, "payload has the CRC"),
    ],
)
def test_what_came_damaged(comm: Comm, start: int, end: int | None, changed: int, finding: str | None) -> None:
    message = good_message()[start:end].copy()
    if changed:
        message[changed] ^= 0xFF
    if finding is None or comm.rank != 1:
        spoil(comm, message)
        return
    with pytest.raises(ClusterError, match=f"a message of rank 0 on .* cannot be used: its? .*{finding}"):
        spoil(comm, message)


def test_a_message_that_is_too_long(comm: Comm) -> None:
    message = np.zeros(SMALL.max_bytes + 1, np.uint8)
    if comm.rank != 1:
        spoil(comm, message)
        return
    with pytest.raises(ClusterError, match="longer than expected: the ranks run different programs"):
        spoil(comm, message)


@pytest.mark.mpi(sizes=(2,))
def test_a_stage_that_is_lost_is_missed_unless_it_may_take_for_ever(comm: Comm) -> None:
    hasty = MpiComm(patience_s=0.4)
    comm.barrier()
    if comm.rank == 0:
        sender = HopSender(comm, 1, SMALL, crc32c)
        time.sleep(1)  # neither waits nor sends
        send_rows(sender, 0, 1)
        comm.barrier()
        time.sleep(1)
        send_rows(sender, 1, 1)
    else:
        receiver = HopReceiver(hasty, 0, SMALL, crc32c)
        receiver.receive(patient=True)
        comm.barrier()
        with pytest.raises(ClusterError, match="no sign of life from rank 0 on .* for"):
            receiver.receive()
        assert receiver.receive(patient=True).step == 1
        receiver.close()


@pytest.mark.mpi(sizes=(4,))
def test_who_waits_for_a_stage_that_waits_waits_on(comm: Comm) -> None:
    """Rank 2 waits for rank 1 beyond its patience; that waits for rank 0, which sleeps, and answers meanwhile."""
    hasty = MpiComm(patience_s=2)
    with ring(hasty) as (sender, receiver):
        comm.barrier()
        if comm.rank == 0:
            time.sleep(2.5)
        if comm.rank == 1:
            assert receiver.receive(patient=True).step == 0
        if comm.rank == 2:
            check_rows(receiver, 1, 1)
        elif comm.rank < 2:
            send_rows(sender, comm.rank, 1)


@pytest.mark.mpi(sizes=(2,))
def test_waiting_for_ever_leaves_the_core(comm: Comm) -> None:
    with ring(comm) as (sender, receiver):
        comm.barrier()
        started, burnt = time.monotonic(), time.process_time()
        if comm.rank == 0:
            time.sleep(1.5)
            send_rows(sender, 0, 1)
        if comm.rank == 1:
            receiver.receive(patient=True)
            assert (time.process_time() - burnt) / (
                time.monotonic() - started
            ) < 0.3  # who looks without a pause takes all of it


def test_bytes_are_counted_at_both_ends_and_in_all(comm: Comm) -> None:
    metered = MeteredComm(comm)
    with ring(metered) as (sender, receiver):
        before = metered.traffic
        for step in range(3):
            send_rows(sender, step, 2)
            check_rows(receiver, step, 2)
        used = metered.traffic - before
        n_bytes = 3 * (64 + 16 + 512)
        assert (used.sent_bytes, used.received_bytes, used.messages) == (n_bytes, n_bytes, 6)
        assert (sender.traffic.n_bytes, receiver.traffic.n_bytes) == (n_bytes, n_bytes)


@pytest.mark.mpi(sizes=(2,))
def test_no_collection_and_no_growth_in_2000_messages(comm: Comm) -> None:
    with noted_collections() as notes, ring(comm) as (sender, receiver):
        try:
            for step in range(N_MESSAGES):
                if step == N_WARM:
                    n_notes, private = len(notes), private_bytes()
                    tracemalloc.start()
                    traced = tracemalloc.get_traced_memory()[0]
                send_rows(sender, step, 1)
                receiver.receive()
            grown = tracemalloc.get_traced_memory()[0] - traced
        finally:
            tracemalloc.stop()
    assert grown < 4096
    assert private_bytes() - private < 1 << 20
    assert len(notes) == n_notes
