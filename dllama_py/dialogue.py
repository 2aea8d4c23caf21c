"""A conversation: what was said so far, and the slot of the cache that remembers it. Knows no terminal.

Each question renders the whole conversation by the model's template; ids that are in the cache already are not
computed again. An answer goes back into the conversation as text, so a template may drop the thoughts in it, and the
prompt is always the one that the template would give to anybody.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dllama_py.completion import Event, Finish, Piece, Request, complete
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.speculation import NO_SPECULATION, Speculating
from dllama_py.engine.step import Steps
from dllama_py.errors import InputError, UsageError
from dllama_py.prompting import Text
from dllama_py.text.thinking import OPEN, message_of

Message = dict[str, str]

WAYS_ON = "/drop forgets the oldest turns, /reset all; a longer context is --max-seq-len"
_TAIL_IDS = 8  # enough for a `<think>` spelled in several tokens and the line ends after it


@dataclass(frozen=True, slots=True)
class Manner:
    """How questions are answered; `n_tokens` None means as many as the context has room for.

    template_options: further variables of the template, as enable_thinking.
    """

    sampling: SamplerSettings
    n_tokens: int | None = None
    stops: Sequence[str] = ()
    template_options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """A question that can be asked: the conversation that ends with it, and its prompt.

    `thinks`: the prompt opens a thought, in which the answer begins.
    """

    messages: Sequence[Message]
    prompt: Sequence[int]
    thinks: bool


class Dialogue:
    """Questions and answers of one user, in one slot."""

    def __init__(
        self,
        text: Text,
        runner: Steps,
        manner: Manner,
        system: str | None = None,
        speculation: Speculating = NO_SPECULATION,
    ) -> None:
        self._text = text
        self.manner = manner  # may be changed between questions, as `template_options`
        self.template_options = dict(manner.template_options)
        self.speculation = speculation
        self._sequence = CachedSequence(runner, slot=0)
        self.context = runner.context
        self.messages: list[Message] = []
        self.restart(system)

    def restart(self, system: str | None) -> None:
        """Forgets everything but the system prompt, which is this one. InputError, and no change, if it is refused."""
        if system:
            self._text.chat_ids("Hello", system, self.template_options)
        self.system = system
        self.messages = [{"role": "system", "content": system}] if system else []

    @property
    def template_variables(self) -> set[str]:
        """Names that the model's chat template takes."""
        return self._text.template.variables()

    def resume(self, messages: Sequence[Message]) -> None:
        """Goes on with a conversation of before. InputError, and no change, if it is none or the template refuses."""
        if not isinstance(messages, list) or not all(_is_message(message) for message in messages):
            raise InputError("the conversation is no list of messages with a role and texts")
        self._text.template.encode([*messages, {"role": "user", "content": "Hello"}], options=self.template_options)
        is_led = bool(messages) and messages[0]["role"] == "system"
        self.system = messages[0]["content"] if is_led else None
        self.messages = messages

    def drop_oldest(self, n_turns: int | None = None) -> int:
        """Forgets so many of the first questions with their answers, or as many as leave half of the context; never
        the system prompt. -> how many.
        """
        first = 1 if self.system else 0
        starts = [number for number, message in enumerate(self.messages) if message["role"] == "user"]
        for n_dropped in range(min(len(starts), n_turns or len(starts)) + 1):
            end = starts[n_dropped] if n_dropped < len(starts) else len(self.messages)
            kept = [*self.messages[:first], *self.messages[end:]] if n_dropped else self.messages
            if n_dropped == n_turns or n_turns is None and self._n_ids(kept, first) <= self.context // 2:
                break
        self.messages = kept
        return n_dropped

    def _n_ids(self, messages: Sequence[Message], first: int) -> int:
        """Of the prompt of a conversation without another question; 0 if it has no turns, from `first` on."""
        return len(self._text.template.encode(messages, options=self.template_options)) if messages[first:] else 0

    @property
    def room(self) -> int:
        """Positions left in the context."""
        return self._sequence.room

    def pose(self, words: str, options: Mapping[str, Any] | None = None) -> Question:
        """What would be computed for a question; nothing is changed yet. options: of this question alone, before
        `template_options`.

        InputError if the template refuses the conversation, UsageError if it does not fit the context.
        """
        messages = [*self.messages, {"role": "user", "content": words}]
        prompt = self._text.template.encode(messages, options=self.template_options | dict(options or {}))
        if len(prompt) > self.context:
            raise UsageError(
                f"the conversation with this question has {len(prompt)} tokens, the context {self.context}; "
                f"ask a shorter one; {WAYS_ON}"
            )
        tail = self._text.tokenizer.decode(prompt[-_TAIL_IDS:])
        return Question(messages, prompt, tail.rstrip().endswith(OPEN))

    def answer(self, question: Question, is_cancelled: Callable[[], bool]) -> Iterator[Event]:
        """Events as of `complete`; after a cancellation, which is seen between tokens, none follows, and no Finish.

        Question and answer, also one that was cancelled, become part of the conversation; a question without any
        answer does not.
        """
        tokenizer = self._text.tokenizer
        request = Request(
            question.prompt,
            self.manner.sampling,
            self.manner.n_tokens or self.context,
            tokenizer.eos_ids,
            tokenizer.vocab_size,
            self.manner.stops,
        )
        said = ""
        for event in complete(
            self._sequence,
            request,
            tokenizer.piece,
            drop_first_space=tokenizer.drops_first_space,
            speculation=self.speculation,
        ):
            if isinstance(event, Piece | Finish):
                said += event.text
            yield event
            if is_cancelled():
                break
        if said:
            answer = {"role": "assistant"} | message_of(said, question.thinks)
            self.messages = [*question.messages, answer]


def _is_message(message: object) -> bool:
    return isinstance(message, dict) and "role" in message and all(isinstance(each, str) for each in message.values())
