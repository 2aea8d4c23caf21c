"""The one loop from prompt ids to text: tokens become whole characters, end tokens and stop texts end it.

Inference, chat, the server and the end-to-end benchmark are callers of `complete`, and who has several answers under
way at once has a `Spelling` of each; none of them touches tokens.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from dllama_py.engine.generate import generate
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.speculation import NO_SPECULATION, Speculating
from dllama_py.engine.token_loop import PromptChunk, Token
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


class Spelling:
    """One answer: the tokens go in as they come, what became certain of the text comes out."""

    def __init__(
        self, request: Request, piece_bytes: Callable[[int], bytes], *, drop_first_space: bool = False
    ) -> None:
        self.is_over = False
        self._request = request
        self._decoder = StreamDecoder(piece_bytes, drop_first_space=drop_first_space)
        self._stops = StopWatcher(request.stops)

    def feed(self, event: PromptChunk | Token) -> Iterator[Event]:
        """A prompt chunk as it is; of a token its piece, and a Finish where it ends the answer."""
        if isinstance(event, PromptChunk):
            yield event
        elif event.id in self._request.ends:
            yield Piece(event, "")
            yield self._finish(FinishReason.STOP)
        else:
            yield Piece(event, self._stops.feed(self._decoder.feed(event.id)))
            if self._stops.met:
                self.is_over = True
                yield Finish(FinishReason.STOP, "")

    def end(self) -> Iterator[Event]:
        """There are no more tokens."""
        if not self.is_over:
            yield self._finish(FinishReason.LENGTH)

    def _finish(self, reason: FinishReason) -> Finish:
        self.is_over = True
        return Finish(reason, self._stops.feed(self._decoder.finish()) + self._stops.finish())


def complete(
    sequence: CachedSequence,
    request: Request,
    piece_bytes: Callable[[int], bytes],
    *,
    drop_first_space: bool = False,
    speculation: Speculating = NO_SPECULATION,
) -> Iterator[Event]:
    """Events in order: prompt chunks, pieces, one Finish. The texts joined are the answer, without the end token."""
    spelling = Spelling(request, piece_bytes, drop_first_space=drop_first_space)
    for event in generate(sequence, request.prompt, request.settings, request.n_tokens, request.n_vocab, speculation):
        yield from spelling.feed(event)
        if spelling.is_over:
            return
    yield from spelling.end()
