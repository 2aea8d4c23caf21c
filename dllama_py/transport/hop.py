"""Messages from one stage of a pipeline to the next: a header, int64 words, rows of activations, sent as one.

Both ends keep their buffers. The sender fills one while others are under way; the receiver has room for the next
message before it is sent. What the words and kinds mean is known to whoever uses this, and so are the activations,
which compiled code writes and reads at the addresses given here.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dllama_py.errors import ClusterError
from dllama_py.stamps import Arrival
from dllama_py.transport.comm import Comm, Request
from dllama_py.transport.hop_header import HEADER_BYTES, Checksum, DamagedMessage, HopFormat, HopHeader, read_header

Bytes = NDArray[np.uint8]
Words = NDArray[np.int64]

N_BUFFERS = 2


@dataclass(frozen=True, slots=True)
class HopMessage:
    """`words`, and uint8 [n_rows * row_bytes] of activations: valid until the next message is asked for."""

    kind: int
    step: int
    n_rows: int
    words: Words
    activations: Bytes


@dataclass(slots=True)
class HopTraffic:
    """Totals of one end, so far. `wait_s`: for a free buffer at the sender, for messages at the receiver.
    `transfer_ns`: from sending to arrival by the clocks of both ends, of the `n_timed` messages of a number of rows for
    which the receiver was already waiting; `timed_bytes`: theirs."""

    n_messages: int = 0
    n_bytes: int = 0
    wait_s: float = 0.0
    transfer_ns: int = 0
    n_timed: int = 0
    timed_bytes: int = 0


class _Room:
    """Memory for one message, and the request that has it."""

    __slots__ = ("address", "bytes", "header", "request", "words")

    def __init__(self, form: HopFormat) -> None:
        self.bytes = np.zeros(form.max_bytes, np.uint8)
        self.header = self.bytes[:HEADER_BYTES].data
        self.words = self.bytes[HEADER_BYTES : HEADER_BYTES + 8 * form.max_words].view(np.int64)
        self.address: int = self.bytes.ctypes.data
        self.request: Request | None = None


class HopSender:
    """The end where messages are made. `place`: int64 [1], the address of the rows of the message that was begun."""

    def __init__(self, comm: Comm, to: int, form: HopFormat, checksum: Checksum, n_buffers: int = N_BUFFERS) -> None:
        self._comm, self._to, self._form, self._checksum = comm, to, form, checksum
        self._rooms = deque(_Room(form) for _ in range(n_buffers))
        self._begun = (0, 0, 0, 0, 0)
        self.place = np.zeros(1, np.int64)
        self.traffic = HopTraffic()

    def begin(self, kind: int, step: int, words: Sequence[int] | Words = (), n_rows: int = 0) -> Bytes:
        """A message in the next buffer, once that is free. -> where its rows are to be written before it is sent, all
        of them: uint8 [n_rows * row_bytes]."""
        form, room, n_words = self._form, self._rooms[0], len(words)
        if n_rows > form.max_rows or n_words > form.max_words:
            raise ValueError(f"{n_rows} rows and {n_words} words do not fit {form}")
        if room.request is not None:
            started = time.perf_counter()
            room.request.wait()
            self.traffic.wait_s += time.perf_counter() - started
        room.words[:n_words] = words
        start, n_bytes = HEADER_BYTES + 8 * n_words, n_rows * form.row_bytes
        self.place[0] = room.address + start
        self._begun = kind, step, n_rows, 8 * n_words, n_bytes
        return room.bytes[start : start + n_bytes]

    def send(self) -> None:
        """The message that was begun leaves; its buffer is not free before it has arrived or lies with the system."""
        form, room = self._form, self._rooms[0]
        kind, step, n_rows, words_bytes, n_bytes = self._begun
        payload_bytes = words_bytes + n_bytes
        crc = self._checksum(room.address + HEADER_BYTES, payload_bytes)
        now, code = time.perf_counter_ns(), form.encoding.number
        header = HopHeader(kind, step, n_rows, form.width, code, words_bytes, n_bytes, now, crc)
        header.write(room.header, room.address, self._checksum)
        room.request = self._comm.start_send(room.bytes[: HEADER_BYTES + payload_bytes], self._to)
        room.request.is_done()  # MPI's code is in the CPU's caches now, and is not when the next message begins
        self._rooms.rotate(-1)
        self.traffic.n_messages += 1
        self.traffic.n_bytes += HEADER_BYTES + payload_bytes

    def tell(self, kind: int, step: int, words: Sequence[int] | Words = ()) -> None:
        """A message without rows."""
        self.begin(kind, step, words)
        self.send()

    def close(self) -> None:
        """Returns when all messages have left."""
        for room in self._rooms:
            if room.request is not None:
                room.request.wait()


class HopReceiver:
    """The end where messages come. `place`: int64 [1], the address of the rows of the last one. `watch`: is told
    the kind of every message, and when it came. `timed_rows`: of the messages that are timed."""

    def __init__(
        self,
        comm: Comm,
        source: int,
        form: HopFormat,
        checksum: Checksum,
        n_buffers: int = N_BUFFERS,
        timed_rows: int = 1,
    ) -> None:
        self._comm, self._source, self._form, self._checksum = comm, source, form, checksum
        self._rooms = deque(_Room(form) for _ in range(n_buffers))
        self._timed_rows = timed_rows
        self.place = np.zeros(1, np.int64)
        self.traffic = HopTraffic()
        self.watch: Callable[[int, Arrival], None] | None = None
        for room in self._rooms:
            self._expect(room)

    def _expect(self, room: _Room) -> None:
        room.request = self._comm.start_receive(room.bytes, self._source)

    def has_message(self) -> bool:
        """Whether `receive` would return at once."""
        request = self._rooms[0].request
        return request is not None and request.is_done()

    def receive(self, patient: bool = False) -> HopMessage:
        """The next message. `patient`: it may take for ever, and nobody is missed meanwhile.

        ClusterError if the sender gives no sign of life within its time, or if what came cannot be used.
        """
        room, last = self._rooms[0], self._rooms[-1]
        if last.request is None:
            self._expect(last)
        was_there, started_ns = self.has_message(), time.perf_counter_ns()
        assert room.request is not None
        room.request.wait(patient)
        arrived_ns = time.perf_counter_ns()
        header = self._checked(room, room.request.n_bytes)
        self._count(header, 0 if was_there else started_ns, arrived_ns)
        room.request = None
        self._rooms.rotate(-1)
        n_words, start = header.words_bytes // 8, HEADER_BYTES + header.words_bytes
        self.place[0] = room.address + start
        rows = room.bytes[start : start + header.activations_bytes]
        return HopMessage(header.kind, header.step, header.n_rows, room.words[:n_words], rows)

    def _checked(self, room: _Room, n_bytes: int) -> HopHeader:
        try:
            header = read_header(room.header, room.address, n_bytes, self._checksum)
            self._form.check(header)
        except DamagedMessage as damage:
            source = f"rank {self._source} on {self._comm.hosts[self._source]}"
            raise ClusterError(
                f"a message of {source} cannot be used: {damage}; look at that host and its link, and at the versions"
            ) from None
        return header

    def _count(self, header: HopHeader, waited_from_ns: int, arrived_ns: int) -> None:
        traffic, n_bytes = self.traffic, HEADER_BYTES + header.payload_bytes
        traffic.n_messages += 1
        traffic.n_bytes += n_bytes
        if waited_from_ns:
            traffic.wait_s += 1e-9 * (arrived_ns - waited_from_ns)
            if header.n_rows == self._timed_rows:
                traffic.transfer_ns += arrived_ns - header.sent_ns
                traffic.timed_bytes += n_bytes
                traffic.n_timed += 1
        if self.watch is not None:
            asked_ns = waited_from_ns or arrived_ns
            self.watch(header.kind, Arrival(self._source, header.step, n_bytes, header.sent_ns, asked_ns, arrived_ns))

    def close(self) -> None:
        """Waits for no further message."""
        for room in self._rooms:
            if room.request is not None:
                room.request.cancel()
                room.request = None
