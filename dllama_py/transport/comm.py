"""What the ranks of a world say to each other, whatever carries it; and the world of one.

Buffers are C-contiguous numpy arrays of any type. They travel as bytes, in both directions into memory that the
caller owns; the receiver knows the length beforehand and a message of another length is an error (in a broadcast as
far as the library notices).
"""

from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from dllama_py.errors import ClusterError
from dllama_py.transport.hosts import Host, own_host
from dllama_py.wire import Wire

Buffer = NDArray[Any]


def pieces_of(buffer: Buffer, most_bytes: int) -> Sequence[Buffer]:
    """The buffer in messages of at most so many bytes; an empty buffer is one empty message."""
    if not buffer.flags.c_contiguous:
        raise ValueError("only contiguous buffers travel")
    if buffer.nbytes <= most_bytes:
        return (buffer,)
    flat = buffer.reshape(-1).view(np.uint8)
    return [flat[start : start + most_bytes] for start in range(0, flat.size, most_bytes)]


class PeerLost(ClusterError):
    """A message failed, most likely because another rank is gone: that one, not this, knows the cause."""


class Request(Protocol):
    """A message under way. Until it is done its buffer must not be touched; nobody may forget it before."""

    @property
    def n_bytes(self) -> int:
        """Of the message, when it is done: one that is received may be shorter than its buffer."""

    def is_done(self) -> bool:
        """Without waiting."""

    def wait(self, patient: bool = False) -> None:
        """Until it is done, spinning for a moment, then asleep most of the time.

        A partner without a sign of life for too long is a ClusterError, unless `patient`: then it may take for ever.
        """

    def cancel(self) -> None:
        """Of one that is received: nobody waits for it any more."""


class Comm(Protocol):
    """A fixed set of ranks, 0 to size - 1; rank 0 is the root, or leads a part of them. Only one thread may use
    it, but for `look_round`.
    """

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def hosts(self) -> tuple[Host, ...]:
        """Of every rank: equal where they share a machine, with names that tell machines apart."""

    @property
    def wire(self) -> Wire:
        """By which compiled code exchanges messages itself; as `exchange`, they belong to a step."""

    def send(self, buffer: Buffer, to: int) -> None:
        """Hand over the buffer; it may be changed afterwards."""

    def recv(self, buffer: Buffer, source: int) -> None:
        """Fill the buffer with one message; sleeps while it waits."""

    def exchange(self, send: Buffer, receive: Buffer, partner: int) -> None:
        """Send and receive at once, spinning: the two buffers may differ in length and must not overlap.

        It begins a step, which the next `broadcast_idle` ends; within one, a partner that gives no sign of life for
        too long is a ClusterError.
        """

    def start_send(self, buffer: Buffer, to: int) -> Request:
        """A message to one who called `start_receive`; those between two ranks come in the order in which they went."""

    def start_receive(self, buffer: Buffer, source: int) -> Request:
        """The next message of `start_send` from there, up to the length of the buffer."""

    def broadcast(self, buffer: Buffer, root: int = 0) -> None:
        """The root's bytes into every rank's buffer, spinning. Who passes them on misses those who do not take them;
        so all must be about to."""

    def broadcast_idle(self, buffer: Buffer, root: int = 0) -> None:
        """As broadcast, for waits of unknown length: after a few milliseconds the rank sleeps and leaves its core."""

    def gather(self, send: Buffer, receive: Sequence[Buffer] | None, root: int = 0) -> None:
        """Every rank's bytes into receive[rank] at the root, lengths may differ; the others pass None."""

    def barrier(self) -> None:
        """Return when all ranks have come here; sleeps while it waits."""

    def part(self, ranks: range) -> "Comm":
        """Some ranks, this one among them, as a world of their own; all of them call it at once."""

    def miss_others(self) -> None:
        """From now on this rank gives signs of life and looks for those of others whenever it calls `look_round`, waits
        or takes a step: the root misses all ranks, the others the root. All call it, and from then on `look_round`."""

    def look_round(self) -> None:
        """From any thread, now and then: answers who asks for a sign of life. ClusterError when a rank has not given
        any for too long. Does nothing while another thread sends, receives or waits, which looks round itself."""

    def farewell(self) -> None:
        """The end of the whole world, which all its ranks call; then it cannot be used any more. A rank that gives no
        sign of life for too long is a ClusterError.
        """

    def abort(self, code: int) -> NoReturn:
        """End every process of the world now, with this exit code."""


class SoloComm:
    """One process by itself; needs no MPI."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self.hosts = (own_host(),)

    @property
    def wire(self) -> Wire:
        raise ValueError("nobody to exchange with in a world of 1")

    def send(self, buffer: Buffer, to: int) -> None:
        raise ValueError(f"rank {to} does not exist in a world of 1")

    def recv(self, buffer: Buffer, source: int) -> None:
        raise ValueError(f"rank {source} does not exist in a world of 1")

    def exchange(self, send: Buffer, receive: Buffer, partner: int) -> None:
        raise ValueError(f"rank {partner} does not exist in a world of 1")

    def start_send(self, buffer: Buffer, to: int) -> Request:
        raise ValueError(f"rank {to} does not exist in a world of 1")

    def start_receive(self, buffer: Buffer, source: int) -> Request:
        raise ValueError(f"rank {source} does not exist in a world of 1")

    def broadcast(self, buffer: Buffer, root: int = 0) -> None:
        """Nobody else needs it."""

    def broadcast_idle(self, buffer: Buffer, root: int = 0) -> None:
        """Nobody else needs it."""

    def gather(self, send: Buffer, receive: Sequence[Buffer] | None, root: int = 0) -> None:
        if receive is None:
            raise ValueError("the root gathers into one buffer a rank")
        receive[0][...] = send

    def barrier(self) -> None:
        """Nobody else can be late."""

    def part(self, ranks: range) -> Comm:
        return self

    def miss_others(self) -> None:
        """There are none."""

    def look_round(self) -> None:
        """Nobody asks."""

    def farewell(self) -> None:
        """Nobody else is left."""

    def abort(self, code: int) -> NoReturn:
        raise SystemExit(code)
