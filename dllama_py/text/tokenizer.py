"""Text to token ids and back, by the `tokenizers` library. Takes data or a folder; knows no model file format."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

from tokenizers import Tokenizer as Backend

from dllama_py.errors import InputError, UsageError
from dllama_py.text import gguf_vocabulary, huggingface_vocabulary
from dllama_py.text.pieces import byte_level_piece, word_piece
from dllama_py.text.special_ids import HuggingFaceSettings, SpecialIds, read_settings


class Tokenizer:
    """One vocabulary. May be used from several threads."""

    def __init__(self, backend: Backend, special_ids: SpecialIds) -> None:
        self._backend = backend
        self._lock = Lock()  # recognising control tokens is a switch of the backend
        added = backend.get_added_tokens_decoder()
        self._added = {id: token.content for id, token in added.items()}
        self._control = frozenset(id for id, token in added.items() if token.special)
        self.vocab_size = 1 + max(backend.get_vocab(with_added_tokens=True).values())
        self.special_ids = special_ids.checked(self.vocab_size)
        self.drops_first_space = huggingface_vocabulary.drops_first_space(backend)
        self._piece_of = byte_level_piece if huggingface_vocabulary.is_byte_level(backend) else word_piece

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
    def from_folder(cls, folder: Path) -> "Tokenizer":
        """From a Hugging Face folder; InputError names a file that is missing or no JSON."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            raise InputError(
                f"{folder} has no tokenizer.json; it is needed to read text; copy it from the model's page"
            )
        names = ("tokenizer_config", "config", "generation_config")
        return cls.from_json(path.read_bytes(), **{name: read_settings(folder / f"{name}.json") for name in names})

    @classmethod
    def from_gguf(cls, metadata: Mapping[str, Any]) -> "Tokenizer":
        """From the tokenizer.ggml.* metadata of a GGUF file; see `gguf_vocabulary`."""
        return cls(*gguf_vocabulary.from_metadata(metadata))

    @property
    def bos_id(self) -> int | None:
        return self.special_ids.bos_id

    @property
    def eos_ids(self) -> frozenset[int]:
        return self.special_ids.eos_ids

    def encode(self, text: str, *, special: bool = True, bos: bool | None = None) -> list[int]:
        """Token ids. special: control tokens spelled in the text are recognised; without it they stay plain text.

        bos: whether to begin with the begin token, if there is one; None does what the tokenizer's settings say.
        """
        begin = [self.bos_id] if self.bos_id is not None and (self.special_ids.add_bos if bos is None else bos) else []
        return begin + [id for id, _ in self.spans(text, special=special)]

    def spans(self, text: str, *, special: bool = True) -> list[tuple[int, tuple[int, int]]]:
        """(id, (start, stop)) of each token: the characters of text it covers, without the begin token.

        UsageError where the text is no Unicode: bytes of a command line that are no UTF-8, or half a surrogate pair.
        """
        _check_unicode(text)
        with self._lock:
            self._backend.encode_special_tokens = not special
            encoded = self._backend.encode(text, add_special_tokens=False)
        return list(zip(encoded.ids, encoded.offsets, strict=True))

    def decode(self, ids: Iterable[int]) -> str:
        """The whole text, special tokens by their names, bytes that are no UTF-8 as U+FFFD."""
        text = b"".join(map(self.piece, ids)).decode("utf-8", errors="replace")
        return text.removeprefix(" ") if self.drops_first_space else text

    def piece(self, id: int) -> bytes:
        """The bytes a token stands for; an incomplete character is possible. Empty for an id without a token."""
        added = self._added.get(id)
        return added.encode() if added is not None else self._piece_of(self._backend.id_to_token(id) or "")

    def token_text(self, id: int) -> str:
        """The piece as text for people to read."""
        return self.piece(id).decode("utf-8", errors="replace")

    def is_special(self, id: int) -> bool:
        """Whether it is a control token, which only a template or raw text may yield."""
        return id in self._control

    def special_texts(self) -> frozenset[str]:
        """The spelling of every control token."""
        return frozenset(self._added[id] for id in self._control)


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise UsageError(
            f"character {error.start} of the text is U+{ord(text[error.start]):04X}, half of a pair or a byte that is "
            "no UTF-8; give the text in UTF-8"
        ) from None
