"""Text to token ids and back, whatever the vocabulary. Takes data or a folder; knows no model file format."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from dllama_py.errors import InputError, UsageError
from dllama_py.text import gguf_vocabulary, huggingface_vocabulary, sentencepiece_model, stored_vocabulary
from dllama_py.text.control_index import ControlIndex
from dllama_py.text.special_ids import HuggingFaceSettings, SpecialIds, folder_settings
from dllama_py.text.vocabulary import Span, Vocabulary
from dllama_py.token_list import TokenList

TOKENIZER_FILES: Mapping[str, Callable[[bytes, HuggingFaceSettings], tuple[Vocabulary, SpecialIds]]] = {
    "tokenizer.json": huggingface_vocabulary.from_json,
    "tokenizer.model": sentencepiece_model.from_model,
}


def has_tokenizer(folder: Path) -> bool:
    """Whether a Hugging Face folder has a file that `Tokenizer.from_folder` can read."""
    return any((folder / name).is_file() for name in TOKENIZER_FILES)


class Tokenizer:
    """One vocabulary with its begin and end tokens. May be used from several threads."""

    def __init__(self, vocabulary: Vocabulary, special_ids: SpecialIds) -> None:
        self._vocabulary = vocabulary
        self.vocab_size = vocabulary.n_tokens
        self.special_ids = special_ids.checked(self.vocab_size)
        self.drops_first_space = vocabulary.drops_first_space

    @classmethod
    def from_json(
        cls,
        data: bytes,
        *,
        tokenizer_config: Mapping[str, Any] | None = None,
        config: Mapping[str, Any] | None = None,
        generation_config: Mapping[str, Any] | None = None,
    ) -> "Tokenizer":
        """From the bytes of a tokenizer.json and the parsed JSON files beside it, where they exist."""
        settings = HuggingFaceSettings(tokenizer_config or {}, config or {}, generation_config or {})
        return cls(*huggingface_vocabulary.from_json(data, settings))

    @classmethod
    def from_folder(cls, folder: Path, name: str | None = None) -> "Tokenizer":
        """From this one of TOKENIZER_FILES in a Hugging Face folder, by default the first that is there; InputError
        names a file that is missing or no JSON.
        """
        found = next((file for file in TOKENIZER_FILES if (folder / file).is_file()), None)
        if found is None:
            raise InputError(
                f"{folder} has no {' or '.join(TOKENIZER_FILES)}; one is needed to read text; "
                "copy it from the model's page"
            )
        file = folder / (name or found)
        return cls(*TOKENIZER_FILES[file.name](file.read_bytes(), folder_settings(folder)))

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any]) -> "Tokenizer":
        """From the tokenizer.ggml.* metadata of a GGUF file; see `gguf_vocabulary`."""
        return cls(*gguf_vocabulary.from_metadata(metadata))

    @classmethod
    def from_token_list(cls, stored: TokenList) -> "Tokenizer":
        """From what a `.t` file holds; see `stored_vocabulary`."""
        return cls(*stored_vocabulary.from_token_list(stored))

    @property
    def bos_id(self) -> int | None:
        return self.special_ids.bos_id

    @property
    def notes(self) -> tuple[str, ...]:
        """What its user should know, a line each."""
        endless = "nothing names an end token of the model: an answer ends at its limit alone"
        return self.special_ids.notes if self.eos_ids else (*self.special_ids.notes, endless)

    @property
    def eos_ids(self) -> frozenset[int]:
        return self.special_ids.eos_ids

    def encode(self, text: str, *, special: bool = True, bos: bool | None = None) -> list[int]:
        """Token ids. special: control tokens spelled in the text are recognised; without it they stay plain text.

        bos: whether to begin with the begin token, if there is one; None does what the tokenizer's settings say.
        """
        begin = [self.bos_id] if self.bos_id is not None and (self.special_ids.add_bos if bos is None else bos) else []
        return begin + [id for id, _ in self.spans(text, special=special)]

    def spans(self, text: str, *, special: bool = True, is_start: bool = True) -> list[Span]:
        """(id, (start, stop)) of each token: the characters of text it covers, without the begin token. is_start: see
        `Vocabulary.spans`.

        UsageError where the text is no Unicode: bytes of a command line that are no UTF-8, or half a surrogate pair.
        """
        check_unicode(text)
        return self._vocabulary.spans(text, special, is_start=is_start)

    def decode(self, ids: Iterable[int]) -> str:
        """The whole text, special tokens by their names, bytes that are no UTF-8 as U+FFFD."""
        text = b"".join(map(self.piece, ids)).decode("utf-8", errors="replace")
        return text.removeprefix(" ") if self.drops_first_space else text

    def piece(self, id: int) -> bytes:
        """The bytes a token stands for; an incomplete character is possible. Empty for an id without a token."""
        return self._vocabulary.piece(id)

    def token_text(self, id: int) -> str:
        """The piece as text for people to read."""
        return self.piece(id).decode("utf-8", errors="replace")

    def is_special(self, id: int) -> bool:
        """Whether it is a control token, which only a template or raw text may yield."""
        return id in self._vocabulary.controls

    @cached_property
    def control_index(self) -> ControlIndex:
        """Finds the control tokens, and parts of them, in what a user says."""
        return ControlIndex(self.special_texts())

    def special_texts(self) -> frozenset[str]:
        """The spelling of every control token."""
        return frozenset(self._vocabulary.controls.values())

    def token_list(self, template: str | None = None) -> TokenList:
        """What a `.t` file holds of this tokenizer."""
        special = self.special_ids
        first = [] if special.eos_id is None else [special.eos_id]
        eos_ids = tuple(dict.fromkeys([*first, *sorted(special.eos_ids)]))
        tokens = [self.piece(id) for id in range(self.vocab_size)]
        return TokenList(tokens, self._vocabulary.scores(), special.bos_id, eos_ids, special.add_bos, template)


def check_unicode(text: str) -> None:
    """UsageError, with the place in this text, where it is no Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"character {error.start} of the text is U+{ord(text[error.start]):04X}, half of a pair or a byte that is "
            "no UTF-8; give the text in UTF-8"
        ) from None
