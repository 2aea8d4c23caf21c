"""Small things to chat with: a vocabulary of bytes with a template, and a user whose lines are written down."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from dllama_py.dialogue import Dialogue, Manner
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.prompting import Text
from dllama_py.text.chat import ChatTemplate
from dllama_py.text.pieces import BYTE_OF
from dllama_py.text.tokenizer import Tokenizer
from tests.support.scripted import ScriptedRunner

TURNS = (
    "{% for m in messages %}<|start|>{{ m.role }}:{{ m.content.split('</think>')[-1] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant:{% endif %}"
)
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system role') }}{% endif %}" + TURNS
START, END = 256, 257


def byte_text(template: str | None = TURNS) -> Text:
    """A token for each byte, then the two control tokens of TURNS."""
    letters = sorted(BYTE_OF, key=BYTE_OF.__getitem__)
    vocabulary = Tokenizer.from_gguf(
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": [*letters, "<|start|>", "<|end|>"],
            "tokenizer.ggml.token_type": [1] * 256 + [3, 3],
            "tokenizer.ggml.merges": [],
            "tokenizer.ggml.eos_token_id": END,
        }
    )
    return Text(vocabulary, ChatTemplate({"default": template} if template else {}, vocabulary))


def scripted_dialogue(
    answer: bytes, question: str, *, stops: Sequence[str] = (), context: int = 256, n_tokens: int | None = None
) -> Dialogue:
    """One whose model answers this question with these bytes, one a token, and later ones with the end token."""
    text = byte_text()
    n_prompt = len(text.chat_ids(question))
    runner = ScriptedRunner([*answer, *[END] * 512], 258, max_rows=64, context=context, prompt_length=n_prompt)
    return Dialogue(text, runner, Manner(SamplerSettings(), n_tokens, stops))


class ScriptedFace:
    """Types lines; remembers what was shown and said. `cancel_at`: presses Ctrl-C once so much was shown."""

    template_options: object = None

    def __init__(self, *lines: str, cancel_at: int | None = None) -> None:
        self._lines = iter(lines)
        self._cancel_at = cancel_at
        self.shown: list[tuple[str, bool]] = []
        self.said: list[str] = []

    def ask(self) -> str | None:
        return next(self._lines, None)

    def show(self, text: str, thought: bool) -> None:
        self.shown.append((text, thought))

    def end_line(self) -> None:
        self.shown.append(("\n", False))

    def say(self, line: str) -> None:
        self.said.append(line)

    @contextmanager
    def answering(self) -> Iterator[Callable[[], bool]]:
        yield lambda: self._cancel_at is not None and len(self.text) >= self._cancel_at

    @property
    def text(self) -> str:
        return "".join(text for text, _ in self.shown)
