"""The one loop from prompt ids to text: tokens become whole characters, end tokens and stop texts end it.

Inference, chat, the server and the end-to-end benchmark are callers of `complete`; none of them touches tokens.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from dllama_py.engine.generate import PromptChunk, Token, generate
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.speculation import NO_SPECULATION, Speculating
from dllama_py.text.stops import StopWatcher
from dllama_py.text.stream import StreamDecoder


class FinishReason(StrEnum):
    STOP = "stop"
    LENGTH = "length"


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be completed. `n_vocab`: ids below it may be sampled."""

    prompt: Sequence[int]
    settings: SamplerSettings
    n_tokens: int
    ends: Collection[int]
    n_vocab: int
    stops: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Piece:
    """A token and the text that became certain with it (may be empty: half a character, the start of a stop)."""

    token: Token
    text: str


@dataclass(frozen=True, slots=True)
class Finish:
    """The end: the reason, and text that had been held back."""

    reason: FinishReason
    text: str


Event = PromptChunk | Piece | Finish


def complete(
    sequence: CachedSequence,
    request: Request,
    piece_bytes: Callable[[int], bytes],
    *,
    drop_first_space: bool = False,
    speculation: Speculating = NO_SPECULATION,
) -> Iterator[Event]:
    """Events in order: prompt chunks, pieces, one Finish. The texts joined are the answer, without the end token."""
    decoder = StreamDecoder(piece_bytes, drop_first_space=drop_first_space)
    stops = StopWatcher(request.stops)
    for event in generate(sequence, request.prompt, request.settings, request.n_tokens, request.n_vocab, speculation):
        if isinstance(event, PromptChunk):
            yield event
            continue
        if event.id in request.ends:
            yield Piece(event, "")
            yield Finish(FinishReason.STOP, stops.feed(decoder.finish()) + stops.finish())
            return
        yield Piece(event, stops.feed(decoder.feed(event.id)))
        if stops.met:
            yield Finish(FinishReason.STOP, "")
            return
    yield Finish(FinishReason.LENGTH, stops.feed(decoder.finish()) + stops.finish())
