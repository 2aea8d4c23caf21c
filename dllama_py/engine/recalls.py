"""From the root to each leader, past the chain: steps that need not be computed any more.

A message along the chain is not read before the steps in front of it are computed; these are there at once. They are
messages of a hop without rows, in a world of their own, so that they do not mix with those of the chain.
"""

from collections.abc import Sequence

from dllama_py.activations import ActivationType
from dllama_py.kernels.crc32c import crc32c
from dllama_py.sharding.grid import answers_on_their_way
from dllama_py.transport.comm import Comm
from dllama_py.transport.hop import HopReceiver, HopSender
from dllama_py.transport.hop_header import HopFormat

RECALL = 0  # the only kind


class RecallSender:
    """At the root. `leaders`: of all other stages."""

    def __init__(self, comm: Comm, leaders: Sequence[int]) -> None:
        form = _form(1 + len(leaders))
        self._senders = [HopSender(comm, leader, form, crc32c) for leader in leaders]

    def tell(self, steps: Sequence[int]) -> None:
        """See chain.Recalling."""
        for sender in self._senders:
            sender.tell(RECALL, 0, steps)

    def close(self) -> None:
        """What was told is under way."""
        for sender in self._senders:
            sender.close()


class RecallReceiver:
    """At a leader."""

    def __init__(self, comm: Comm, n_stages: int) -> None:
        self._receiver = HopReceiver(comm, 0, _form(n_stages), crc32c)
        self._steps: set[int] = set()

    def has(self, step: int) -> bool:
        """See leader.Recalled."""
        while self._receiver.has_message():
            self._steps.update(self._receiver.receive().words.tolist())
        self._steps = {each for each in self._steps if each >= step}
        return step in self._steps

    def close(self) -> None:
        """Waits for nothing more."""
        self._receiver.close()


def _form(n_stages: int) -> HopFormat:
    return HopFormat(ActivationType.F32, width=0, max_rows=0, max_words=answers_on_their_way(n_stages))
