"""Which tokenizer and chat template belong to a model, and how a user's words become prompt ids.

Joins the text room with the opened file: neither knows the other.
"""

from dataclasses import dataclass
from pathlib import Path

from dllama_py.errors import InputError, UsageError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.formats.gguf import open_metadata
from dllama_py.text.chat import ChatTemplate
from dllama_py.text.tokenizer import Tokenizer

BUILT_IN_PROMPT = "What is the capital of France? Answer in one sentence."


@dataclass(frozen=True, slots=True)
class Text:
    """A vocabulary and the templates that go with it."""

    tokenizer: Tokenizer
    template: ChatTemplate

    def chat_ids(self, user: str, system: str | None = None) -> list[int]:
        """One question through the template."""
        messages = [{"role": "system", "content": system}] if system else []
        return self.template.encode([*messages, {"role": "user", "content": user}])

    def built_in_ids(self) -> list[int]:
        """The built-in question, as chat where the model can chat."""
        return self.chat_ids(BUILT_IN_PROMPT) if self.template.exists else self.tokenizer.encode(BUILT_IN_PROMPT)


def open_text(checkpoint: Checkpoint | None, tokenizer: Path | None) -> Text | None:
    """From --tokenizer where given, else from what the model carries; None if it carries nothing, as a `.m`."""
    if tokenizer is not None:
        return _from_path(tokenizer)
    if checkpoint is None:
        return None
    if checkpoint.path.is_dir():
        return _from_path(checkpoint.path) if (checkpoint.path / "tokenizer.json").is_file() else None
    if "tokenizer.ggml.model" in checkpoint.metadata:
        vocabulary = Tokenizer.from_gguf(checkpoint.metadata)
        return Text(vocabulary, ChatTemplate.from_gguf(checkpoint.metadata, vocabulary))
    return None


def need_text(text: Text | None, purpose: str) -> Text:
    """The text, or a UsageError that says how to give one."""
    if text is None:
        raise UsageError(
            f"{purpose} needs a tokenizer and the model has none; "
            "give --tokenizer (a tokenizer.json, its folder, or a GGUF file), or token ids with --ids"
        )
    return text


def check_vocabulary(text: Text, checkpoint: Checkpoint) -> None:
    """More tokens than rows is an error; fewer is common, the surplus rows are never sampled."""
    n_tokens, n_rows = text.tokenizer.vocab_size, checkpoint.config.vocab_size
    if n_tokens > n_rows:
        raise InputError(
            f"the tokenizer has {n_tokens} tokens, the model {n_rows} rows: they do not belong together; "
            "give the tokenizer that came with the model"
        )


def _from_path(path: Path) -> Text:
    folder = path.parent if path.name == "tokenizer.json" else path
    if folder.is_dir():
        vocabulary = Tokenizer.from_folder(folder)
        return Text(vocabulary, ChatTemplate.from_folder(folder, vocabulary))
    if not path.is_file():
        raise InputError(f"{path}: there is no such tokenizer; give a tokenizer.json, its folder, or a GGUF file")
    metadata = open_metadata(path)
    vocabulary = Tokenizer.from_gguf(metadata)
    return Text(vocabulary, ChatTemplate.from_gguf(metadata, vocabulary))
