"""Which tokenizer and chat template belong to a model, and how a user's words become prompt ids.

Joins the text room with the opened file: neither knows the other.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from dllama_py.cluster.registry import fetched_path
from dllama_py.errors import InputError, UsageError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.formats.gguf import open_metadata
from dllama_py.formats.gguf_writer import NO_VOCABULARY
from dllama_py.formats.mapped import MappedFile
from dllama_py.formats.strangers import refuse_stranger_shard
from dllama_py.formats.tokenizer_file import is_tokenizer_file, read_tokenizer_file
from dllama_py.text.chat import ChatTemplate
from dllama_py.text.gguf_special_ids import named_end_ids
from dllama_py.text.special_ids import end_ids as ids_in_settings
from dllama_py.text.special_ids import folder_settings
from dllama_py.text.stored_ids import with_folder_ids
from dllama_py.text.tokenizer import TOKENIZER_FILES, Tokenizer, has_tokenizer
from dllama_py.token_list import TokenList

BUILT_IN_PROMPT = "What is the capital of France? Answer in one sentence."

Prompt = str | Sequence[int] | Sequence[Mapping[str, Any]]  # raw text, token ids, or chat messages
TOKENIZER_SOURCES = "a .t file, a tokenizer.json or tokenizer.model, its folder, or a GGUF file"


@dataclass(frozen=True, slots=True)
class Text:
    """A vocabulary and the templates that go with it."""

    tokenizer: Tokenizer
    template: ChatTemplate

    def chat_ids(self, user: str, system: str | None = None, options: Mapping[str, Any] | None = None) -> list[int]:
        """One question through the template; options: see `ChatTemplate.render`."""
        messages = [{"role": "system", "content": system}] if system else []
        return self.template.encode([*messages, {"role": "user", "content": user}], options=options)

    def built_in_ids(self) -> list[int]:
        """The built-in question, as chat where the model can chat."""
        return self.chat_ids(BUILT_IN_PROMPT) if self.template.exists else self.tokenizer.encode(BUILT_IN_PROMPT)

    def drops_space_after(self, raw: Sequence[int]) -> bool:
        """Whether an answer to these ids begins a text, where its first space belongs to the vocabulary: nothing but
        the begin token stands before. Behind words the space is the one between two of them.
        """
        return self.tokenizer.drops_first_space and all(id == self.tokenizer.bos_id for id in raw)


def open_text(checkpoint: Checkpoint | None, tokenizer: Path | None) -> Text | None:
    """From --tokenizer where given, else from what the model carries, else from a `.t` file that lies beside it under
    distributed-llama's name; None if there is nothing.
    """
    if tokenizer is not None:
        return text_from_path(fetched_path(tokenizer) or tokenizer)
    if checkpoint is None:
        return None
    if checkpoint.path.is_dir():
        return _from_folder(checkpoint.path) if has_tokenizer(checkpoint.path) else None
    if checkpoint.metadata.get("tokenizer.ggml.model", NO_VOCABULARY) != NO_VOCABULARY:
        return _from_metadata(checkpoint.metadata)
    beside = _tokenizer_beside(checkpoint.path)
    return None if beside is None else text_from_path(beside)


def _tokenizer_beside(model: Path) -> Path | None:
    """dllama_model_X_q40.m -> dllama_tokenizer_X_q40.t (of the launcher) or dllama_tokenizer_X.t (of the converter)."""
    name = model.name.removeprefix("dllama_model_").removesuffix(".m")
    if model.name != f"dllama_model_{name}.m":
        return None
    places = (model.with_name(f"dllama_tokenizer_{each}.t") for each in (name, name.rpartition("_")[0]))
    return next((place for place in places if place.is_file()), None)


def text_from_path(path: Path) -> Text:
    """From a folder, a file of one, a GGUF or a `.t` file, whichever the first bytes say."""
    if path.is_dir():
        return _from_folder(path)
    if path.name in TOKENIZER_FILES and path.is_file():
        return _from_folder(path.parent, path.name)
    if not path.is_file():
        raise InputError(f"{path}: there is no such tokenizer; give {TOKENIZER_SOURCES}")
    if is_tokenizer_file(path):
        return _from_list(read_tokenizer_file(path))
    return _from_metadata(open_metadata(path))


def stored_tokens(path: Path) -> TokenList:
    """What a `.t` file holds of this tokenizer; see `text_from_path` for where it may be."""
    text = text_from_path(path)
    stored = text.tokenizer.token_list(text.template.default_source)
    folder = path if path.is_dir() else path.parent if path.name in TOKENIZER_FILES else None
    return stored if folder is None else with_folder_ids(stored, folder_settings(folder))


def end_ids(checkpoint: Checkpoint, text: Text | None) -> frozenset[int]:
    """The tokens that end an answer: the tokenizer's, or without one those that the model's files give as ids."""
    if text is not None:
        return text.tokenizer.eos_ids
    if checkpoint.path.is_dir():
        return ids_in_settings(folder_settings(checkpoint.path))
    return named_end_ids(checkpoint.metadata)


def need_text(text: Text | None, purpose: str, instead: str = "") -> Text:
    """The text, or a UsageError that says how to give one, or what to give `instead`."""
    if text is None:
        raise UsageError(
            f"{purpose} needs a tokenizer and the model has none; give --tokenizer ({TOKENIZER_SOURCES}){instead}"
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


def written_down(prompt: Any) -> Prompt:
    """A program's prompt, as one that may be looked at more than once. UsageError for what holds no ids or messages."""
    if isinstance(prompt, str):
        return prompt
    if not isinstance(prompt, Iterable) or isinstance(prompt, bytes | bytearray | memoryview | Mapping):
        raise UsageError(f"the prompt is {prompt!r}; expected a text, token ids or chat messages")
    return list(prompt)


def template_options(given: Any) -> dict[str, Any]:
    """Variables for a chat template, from whoever asks; None: no more than it has. UsageError for what names none."""
    options = {} if given is None else given
    if not isinstance(options, Mapping) or not all(isinstance(name, str) for name in options):
        raise UsageError(
            f'chat_template_kwargs is {given!r}; expected names and values, as {{"enable_thinking": false}}'
        )
    return dict(options)


def prompt_ids(text: Text | None, prompt: Prompt, options: Mapping[str, Any] | None = None) -> list[int]:
    """options: of a chat, see `ChatTemplate.render`. UsageError for a mixture, for options of another prompt, and for
    text where there is no tokenizer.
    """
    if options and not is_chat(prompt):
        raise UsageError("chat_template_kwargs is for chat messages; this prompt is none")
    if isinstance(prompt, str):
        return need_text(text, "a text prompt", ", or token ids").tokenizer.encode(prompt)
    ids = [int(each) for each in prompt if isinstance(each, Integral) and not isinstance(each, bool)]
    messages = [each for each in prompt if isinstance(each, Mapping)]
    if len(ids) == len(prompt):
        return ids
    if len(messages) == len(prompt):
        return need_text(text, "a chat").template.encode(messages, options=options)
    kinds = ", ".join(sorted({type(each).__name__ for each in prompt}))
    raise UsageError(f"the prompt holds {kinds}; expected a text, token ids alone, or chat messages alone")


def drops_first_space(text: Text | None, prompt: Prompt, ids: Sequence[int]) -> bool:
    """Whether an answer to that prompt, which has these ids, begins a text; see `Text.drops_space_after`."""
    if text is None:
        return False
    return text.tokenizer.drops_first_space if is_chat(prompt) else text.drops_space_after(ids)


def is_chat(prompt: Prompt) -> bool:
    """Whether it holds messages."""
    return not isinstance(prompt, str) and any(isinstance(each, Mapping) for each in prompt)


def _from_folder(folder: Path, name: str | None = None) -> Text:
    file = name or next((each for each in TOKENIZER_FILES if (folder / each).is_file()), None)
    if file is not None:
        refuse_stranger_shard(MappedFile(folder / file))
    tokenizer = Tokenizer.from_folder(folder, file)
    return Text(tokenizer, ChatTemplate.from_folder(folder, tokenizer))


def _from_metadata(metadata: Mapping[str, Any]) -> Text:
    tokenizer = Tokenizer.from_gguf(metadata)
    return Text(tokenizer, ChatTemplate.from_gguf(metadata, tokenizer))


def _from_list(stored: TokenList) -> Text:
    tokenizer = Tokenizer.from_token_list(stored)
    sources = {} if stored.template is None else {"default": stored.template}
    return Text(tokenizer, ChatTemplate(sources, tokenizer))
