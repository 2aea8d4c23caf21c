"""The ends of the ways between stages, as pipeline.py wants them: rows go straight from and to a rank's buffers."""

from dataclasses import dataclass

import numpy as np

from dllama_py.activations import ActivationType
from dllama_py.blocks import BLOCK
from dllama_py.engine.pipeline import ANSWER_HEAD, LOGITS_HEAD, most_words
from dllama_py.engine.protocol import Message, Words
from dllama_py.engine.step import Floats
from dllama_py.kernels.activations import CODINGS, decode_rows, encode_rows
from dllama_py.kernels.crc32c import crc32c
from dllama_py.kernels.program import Kernel, Program
from dllama_py.kernels.team import Team
from dllama_py.model.rank_model import RankModel
from dllama_py.sharding.grid import answers_on_their_way, steps_in_flight
from dllama_py.stamps import Arrival
from dllama_py.transport.hop import N_BUFFERS, HopReceiver, HopSender, HopTraffic
from dllama_py.transport.hop_header import HopFormat
from dllama_py.transport.metered import MeteredComm

HOP_KERNELS = (encode_rows, decode_rows)


class Hops:
    """Makes the ends of one rank. `n_last`: ranks of the last stage."""

    def __init__(
        self, world: MeteredComm, team: Team, model: RankModel, activations: str, n_stages: int, n_last: int
    ) -> None:
        self._world = world
        self._team = team
        self._model = model
        self._n_stages = n_stages
        self._ends: list[HopSender | HopReceiver] = []
        b, config = model.buffers, model.config
        self._chain = HopFormat(ActivationType.named(activations), config.width, b.max_rows, most_words(b.max_rows))
        n_words = max(ANSWER_HEAD + n_last * b.candidates.size, LOGITS_HEAD)
        width = -(-config.vocab_size // BLOCK) * BLOCK
        self._answer = HopFormat(ActivationType.F32, width, 1, n_words)

    def close(self) -> None:
        """What was sent has arrived, and nothing more is expected."""
        for end in self._ends:
            end.close()

    def _sender(self, to: int, form: HopFormat, n_buffers: int) -> HopSender:
        self._ends.append(sender := HopSender(self._world, to, form, crc32c, n_buffers))
        return sender

    def _receiver(self, source: int, form: HopFormat, timed_rows: int) -> HopReceiver:
        """`timed_rows`: of what one decoded token has."""
        self._ends.append(receiver := HopReceiver(self._world, source, form, crc32c, timed_rows=timed_rows))
        if self._team.recording is not None:
            receiver.watch = self._note
        return receiver

    def _note(self, kind: int, arrival: Arrival) -> None:
        """Writes down when a step came."""
        if kind in (Message.FORWARD, Message.ANSWER) and self._team.recording is not None:
            self._team.recording.arrivals.append(arrival)

    def onward(self, to: int) -> "RowsOnward":
        """To the leader of the next stage, or an idle rank."""
        hop = self._sender(to, self._chain, max(N_BUFFERS, steps_in_flight(self._n_stages)))
        return RowsOnward(hop, self._team, self._model, self._chain.encoding)

    def arriving(self, source: int) -> "RowsArriving":
        """From the leader of the stage before."""
        hop = self._receiver(source, self._chain, 1)
        return RowsArriving(hop, self._team, self._model, self._chain.encoding, patient=source == 0)

    def answering(self, to: int) -> "LogitsOnward":
        """From the last leader to the root."""
        hop = self._sender(to, self._answer, answers_on_their_way(self._n_stages) + 1)
        return LogitsOnward(hop, self._answer.width)

    def answers(self, source: int) -> "LogitsArriving":
        """At the root, from the last leader."""
        hop = self._receiver(source, self._answer, 0)
        return LogitsArriving(hop, self._answer.width, self._model.config.vocab_size)


@dataclass(frozen=True, slots=True)
class Heard:
    """See pipeline.Heard."""

    kind: int
    step: int
    words: Words
    rows: Floats


class RowsOnward:
    """Sends rows of `buffers.x`."""

    def __init__(self, hop: HopSender, team: Team, model: RankModel, encoding: ActivationType) -> None:
        self._hop = hop
        self._team = team
        self._n_rows = np.zeros(1, np.int64)
        self._encode = _coding(encode_rows, model, self._n_rows, hop.place, encoding)

    def send(self, kind: int, step: int, words: Words, n_rows: int = 0) -> None:
        """See pipeline.Onward."""
        self._hop.begin(kind, step, words, n_rows)
        if n_rows:
            self._n_rows[0] = n_rows
            self._team.run(self._encode)
        self._hop.send()


class RowsArriving:
    """Takes rows into `buffers.x`. `patient`: who sends them waits for users, and not for messages alone."""

    def __init__(self, hop: HopReceiver, team: Team, model: RankModel, encoding: ActivationType, patient: bool) -> None:
        self._hop = hop
        self._patient = patient
        self._team = team
        self._x = model.buffers.x
        self._n_rows = np.zeros(1, np.int64)
        self._decode = _coding(decode_rows, model, self._n_rows, hop.place, encoding)

    @property
    def traffic(self) -> HopTraffic:
        """See pipeline.Arriving."""
        return self._hop.traffic

    def receive(self) -> Heard:
        """See pipeline.Arriving. ClusterError if a leader that is not the root gives no sign of life for too long."""
        message = self._hop.receive(self._patient)
        if message.n_rows:
            self._n_rows[0] = message.n_rows
            self._team.run(self._decode)
        return Heard(message.kind, message.step, message.words, self._x[: message.n_rows])

    def has_message(self) -> bool:
        """See pipeline.Arriving."""
        return self._hop.has_message()


class LogitsOnward:
    """Sends logits of whatever rows it is given."""

    def __init__(self, hop: HopSender, width: int) -> None:
        self._hop = hop
        self._width = width

    def send(self, kind: int, step: int, words: Words, logits: Floats | None = None) -> None:
        """See pipeline.Answering."""
        if logits is None:
            self._hop.tell(kind, step, words)
            return
        room = self._hop.begin(kind, step, words, len(logits)).view(np.float32).reshape(-1, self._width)
        room[:, : logits.shape[1]] = logits
        self._hop.send()


class LogitsArriving:
    """Takes them."""

    def __init__(self, hop: HopReceiver, width: int, vocab_size: int) -> None:
        self._hop = hop
        self._width = width
        self._vocab_size = vocab_size

    @property
    def traffic(self) -> HopTraffic:
        """See pipeline.Arriving."""
        return self._hop.traffic

    def receive(self) -> Heard:
        """See pipeline.Arriving. ClusterError if the last leader gives no sign of life for too long."""
        message = self._hop.receive()
        rows = message.activations.view(np.float32).reshape(-1, self._width)[:, : self._vocab_size].copy()
        return Heard(message.kind, message.step, message.words, rows)

    def has_message(self) -> bool:
        """See pipeline.Arriving."""
        return self._hop.has_message()


def _coding(kernel: Kernel, model: RankModel, n_rows: Words, place: Words, encoding: ActivationType) -> Program:
    instruction = kernel(
        n_rows=n_rows,
        n_blocks=model.config.width // BLOCK,
        values=model.buffers.x,
        place=place,
        coding=CODINGS[encoding],
    )
    return Program([instruction])
