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
from dllama_py.errors import UsageError
from dllama_py.prompting import Text
from dllama_py.text.thinking import OPEN, message_of

Message = dict[str, str]

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
        self._manner = manner
        self.template_options = dict(manner.template_options)  # may be changed between questions
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
                "ask a shorter one, start anew with /reset, or raise --max-seq-len"
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
            self._manner.sampling,
            self._manner.n_tokens or self.context,
            tokenizer.eos_ids,
            tokenizer.vocab_size,
            self._manner.stops,
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
