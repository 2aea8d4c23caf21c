# python -m pytest tests/transport/test_hop.py
"""Messages between stages, on ranks that are threads."""

import time
from collections.abc import Callable

import numpy as np
import pytest

from dllama_py.activations import ActivationType
from dllama_py.errors import ClusterError
from dllama_py.kernels.crc32c import crc32c
from dllama_py.transport.comm import Comm
from dllama_py.transport.hop import HopFormat, HopMessage, HopReceiver, HopSender
from tests.support.crc import bit_by_bit
from tests.support.threads import run_ranks

FORM = HopFormat(ActivationType.BF16, width=32, max_rows=3, max_words=4)
PAYLOAD = np.array([-1, 9], "<i8").tobytes() + bytes(range(128))  # two words, two rows


def crc(data: bytes) -> bytes:
    return bit_by_bit(data).to_bytes(4, "little")


def edited(message: bytes, *edits: tuple[int, bytes]) -> bytes:
    """Other bytes at some places."""
    changed = bytearray(message)
    for at, new in edits:
        changed[at : at + len(new)] = new
    return bytes(changed)


def resealed(message: bytes, *edits: tuple[int, bytes]) -> bytes:
    """The same by a program that means it: its header has the right checksum."""
    changed = edited(message, *edits)
    return edited(changed, (60, crc(changed[:60])))


START = bytes.fromhex("444c4850 0100 0500 0700000000000000 02000000 20000000 01000000 10000000 8000000000000000")
MESSAGE = resealed(START + bytes(8) + crc(PAYLOAD) + bytes(12) + PAYLOAD)


def sent(work: Callable[[HopSender], None]) -> bytes:
    """What goes over the wire."""

    def rank(comm: Comm) -> bytes:
        if comm.rank == 0:
            work(HopSender(comm, 1, FORM, crc32c))
            return b""
        buffer = np.zeros(FORM.max_bytes, np.uint8)
        request = comm.start_receive(buffer, 0)
        request.wait()
        return buffer[: request.n_bytes].tobytes()

    return run_ranks(2, rank)[1]


def received(message: bytes, form: HopFormat = FORM) -> HopMessage:
    def rank(comm: Comm) -> HopMessage | None:
        if comm.rank == 0:
            comm.start_send(np.frombuffer(message, np.uint8), 1)
            return None
        return HopReceiver(comm, 0, form, crc32c).receive()

    found = run_ranks(2, rank)[1]
    assert found is not None
    return found


def two_rows(sender: HopSender) -> None:
    sender.begin(5, 7, [-1, 9], n_rows=2)[:] = range(128)
    sender.send()


def test_the_bytes_of_a_message() -> None:
    message = sent(two_rows)
    assert resealed(message, (40, bytes(8))) == MESSAGE
    assert resealed(message) == message


def test_a_message_arrives() -> None:
    found = received(sent(two_rows))
    assert (found.kind, found.step, found.n_rows, found.words.tolist()) == (5, 7, 2, [-1, 9])
    assert found.activations.tolist() == list(range(128))


def test_a_message_without_rows_or_words() -> None:
    found = received(sent(lambda sender: sender.tell(1, 2)))
    assert (found.kind, found.step, found.n_rows, found.words.size, found.activations.size) == (1, 2, 0, 0, 0)


@pytest.mark.parametrize(
    ("message", "finding"),
    [
        (b"", "it has 0 bytes, expected a header of 64 at least"),
        (MESSAGE[:63], "it has 63 bytes, expected a header of 64 at least"),
        (MESSAGE[:-1], r"it has 207 bytes, expected 64 \+ 16 \+ 128"),
        (MESSAGE + b"\0", r"it has 209 bytes, expected 64 \+ 16 \+ 128"),
        (edited(MESSAGE, (0, b"GGUF")), "it begins with b'GGUF', expected b'DLHP'"),
        (edited(MESSAGE, (4, b"\2")), "it is of version 2, expected 1"),
        (edited(MESSAGE, (9, b"\1")), "its header has the CRC ........, expected ........"),
        (edited(MESSAGE, (100, b"\xff")), "its payload has the CRC ........, expected ........"),
        (resealed(MESSAGE, (20, b"\x40")), r"its width and encoding are \(64, 1\), expected \(32, 1\)"),
        (resealed(MESSAGE, (24, b"\0")), r"its width and encoding are \(32, 0\), expected \(32, 1\)"),
        (resealed(MESSAGE, (16, b"\3")), "it has 3 rows in 128 bytes, expected 64 a row"),
        (resealed(MESSAGE, (28, b"\x11"), (32, b"\x7f")), "2 rows in 127 bytes, expected 64 a row"),
        (resealed(MESSAGE, (28, b"\x50"), (32, b"\x40")), "2 rows in 64 bytes, expected 64 a row"),
    ],
)
def test_a_message_that_cannot_be_used(message: bytes, finding: str) -> None:
    with pytest.raises(
        ClusterError, match=f"a message of rank 0 on here cannot be used: .*{finding}; look at that host"
    ):
        received(message)


def test_words_are_whole() -> None:
    odd = resealed(MESSAGE[:-5], (28, b"\x0b"), (48, crc(MESSAGE[64:-5])))
    with pytest.raises(ClusterError, match="it has 11 bytes of words, expected 8 each"):
        received(odd)


def test_what_does_not_fit_is_not_begun() -> None:
    with pytest.raises(ValueError, match="4 rows and 0 words do not fit HopFormat"):
        sent(lambda sender: sender.begin(0, 0, n_rows=4))
    with pytest.raises(ValueError, match="0 rows and 5 words do not fit HopFormat"):
        sent(lambda sender: sender.begin(0, 0, [0] * 5))


def test_many_messages_in_order_and_counted() -> None:
    def rank(comm: Comm) -> tuple[list[int], int, int]:
        if comm.rank == 0:
            sender = HopSender(comm, 1, FORM, crc32c)
            for step in range(20):
                sender.begin(0, step, n_rows=step % 4)[:] = step
                sender.send()
            sender.close()
            return [], sender.traffic.n_messages, sender.traffic.n_bytes
        receiver, steps = HopReceiver(comm, 0, FORM, crc32c), []
        for _ in range(20):
            message = receiver.receive(patient=True)
            assert set(message.activations.tolist()) <= {message.step}
            steps.append(message.step)
        assert not receiver.has_message()
        receiver.close()
        return steps, receiver.traffic.n_messages, receiver.traffic.n_bytes

    gone, come = run_ranks(2, rank)
    assert come == (list(range(20)), 20, 20 * 64 + 30 * 64)
    assert gone[1:] == come[1:]


class LateRequest:
    """A message that comes when it is waited for."""

    n_bytes = len(MESSAGE)

    def __init__(self, buffer: np.ndarray) -> None:
        self._buffer = buffer

    def is_done(self) -> bool:
        return False

    def wait(self, patient: bool = False) -> None:
        sent_ns = time.perf_counter_ns() - 5 * 10**9
        self._buffer[: self.n_bytes] = np.frombuffer(resealed(MESSAGE, (40, sent_ns.to_bytes(8, "little"))), np.uint8)


class LateComm:
    def start_receive(self, buffer: np.ndarray, source: int) -> LateRequest:
        return LateRequest(buffer)


def test_what_is_waited_for_is_timed_by_the_clocks_of_both() -> None:
    receiver = HopReceiver(LateComm(), 0, FORM, crc32c, timed_rows=2)
    for _ in range(2):
        receiver.receive()
    found = receiver.traffic
    assert (found.n_timed, found.timed_bytes) == (2, 2 * len(MESSAGE))
    assert 10 <= found.transfer_ns / 1e9 < 20
