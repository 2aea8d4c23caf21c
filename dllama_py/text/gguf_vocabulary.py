"""A vocabulary from the tokenizer.ggml.* metadata of a GGUF file. Knows the keys, not the file format."""

import math
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dllama_py.errors import InputError
from dllama_py.text.byte_level import add_tokens, byte_level_backend
from dllama_py.text.control_tokens import has_control_look, is_mislabelled, is_word
from dllama_py.text.gguf_special_ids import named_ids, special_ids
from dllama_py.text.merging_vocabulary import Prefix
from dllama_py.text.pre_tokenizers import split_rule
from dllama_py.text.sentencepiece import PieceType, sentencepiece_vocabulary
from dllama_py.text.special_ids import SpecialIds
from dllama_py.text.vocabulary import LibraryVocabulary, Vocabulary

_KEY = "tokenizer.ggml."
_SHOWN = 4  # tokens in a note


@dataclass(frozen=True, slots=True)
class _Listing:
    """Text and type of each token, without the unused ones at the end, which only pad the model's rows.

    mislabelled: the control tokens that the file calls ordinary or unused.
    """

    texts: list[str]
    types: list[int]
    mislabelled: list[int]

    def controls(self) -> dict[str, int]:
        kinds = (PieceType.CONTROL, PieceType.UNKNOWN)
        return {text: id for id, text in enumerate(self.texts) if self.types[id] in kinds}

    def added(self) -> list[tuple[str, bool]]:
        """Control tokens and those of the user, with whether each is a control token."""
        controls = self.controls()
        pairs = zip(self.texts, self.types, strict=True)
        return [(text, text in controls) for text, kind in pairs if text in controls or kind == PieceType.USER_DEFINED]

    def notes(self) -> tuple[str, ...]:
        if not self.mislabelled:
            return ()
        shown = ", ".join(f"{self.texts[id]} ({id})" for id in self.mislabelled[:_SHOWN])
        more = len(self.mislabelled) - _SHOWN
        return (
            f"the GGUF file does not mark {shown}{f' and {more} more' if more > 0 else ''} as control tokens; "
            "they are read as such",
        )


def from_metadata(metadata: Mapping[str, Any]) -> tuple[Vocabulary, SpecialIds]:
    """InputError for another kind of vocabulary, an unknown pre-tokenizer, missing keys or merges of unknown tokens."""
    kind = metadata.get(_KEY + "model")
    reader = _READERS.get(kind) if isinstance(kind, str) else None
    if reader is None:
        raise InputError(
            f"the GGUF file holds a tokenizer of kind {kind!r}; only {' and '.join(map(repr, _READERS))} can be read "
            "from GGUF; point --tokenizer to the model's Hugging Face folder"
        )
    return reader(metadata)


def _byte_level(metadata: Mapping[str, Any]) -> tuple[Vocabulary, SpecialIds]:
    rule = split_rule(metadata.get(_KEY + "pre"))
    listing = _listing(metadata)
    vocab = {text: id for id, text in enumerate(listing.texts)}
    pairs = [_pair(merge) for merge in _listed(metadata, "merges")]
    try:
        backend = byte_level_backend(vocab, pairs, rule)
    except Exception as error:  # the library raises a bare Exception for a merge of unknown tokens
        raise InputError(f"{_KEY}merges does not fit {_KEY}tokens: {error}") from error
    add_tokens(backend, listing.added())
    ids = special_ids(metadata, listing.controls(), len(listing.texts), add_bos=rule.add_bos)
    return LibraryVocabulary(backend), replace(ids, notes=listing.notes())


def _sentencepiece(metadata: Mapping[str, Any]) -> tuple[Vocabulary, SpecialIds]:
    listing = _listing(metadata)
    n_tokens = len(listing.texts)
    try:
        scores = [float(score) for score in _listed(metadata, "scores")[:n_tokens]]
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{_KEY}scores are no numbers ({error}); convert the model again") from None
    if len(scores) != n_tokens or not all(map(math.isfinite, scores)):
        raise InputError(f"{_KEY}scores does not have a number for each of {n_tokens} tokens; convert the model again")
    prefix = Prefix.ALWAYS if metadata.get(_KEY + "add_space_prefix", True) else Prefix.NEVER
    single = bool(metadata.get(_KEY + "remove_extra_whitespaces", False))
    vocabulary = sentencepiece_vocabulary(listing.texts, scores, listing.types, prefix=prefix, single_spaces=single)
    ids = special_ids(metadata, listing.controls(), n_tokens, add_bos=True, defaults=(1, 2))
    return vocabulary, replace(ids, notes=listing.notes())


_READERS: dict[str, Callable[[Mapping[str, Any]], tuple[Vocabulary, SpecialIds]]] = {
    "gpt2": _byte_level,
    "llama": _sentencepiece,
}


def _listing(metadata: Mapping[str, Any]) -> _Listing:
    texts = _texts(_listed(metadata, "tokens"))
    try:
        types = [int(kind) for kind in _listed(metadata, "token_type", [PieceType.NORMAL] * len(texts))]
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{_KEY}token_type is no array of numbers ({error}); convert the model again") from None
    if len(types) != len(texts):
        raise InputError(f"{_KEY}token_type has {len(types)} entries for {len(texts)} tokens; expected as many")
    mislabelled = _set_controls(texts, types, named_ids(metadata))
    while types and types[-1] == PieceType.UNUSED:
        types.pop()
    del texts[len(types) :]
    if not texts or len(set(texts)) != len(texts):
        raise InputError(f"{_KEY}tokens holds {len(texts)} tokens but {len(set(texts))} different ones")
    return _Listing(texts, types, mislabelled)


def _set_controls(texts: list[str], types: list[int], named: Container[int]) -> list[int]:
    """Makes control tokens of those with their look, and of begin and end tokens that the file names; the ids of those
    that nobody would recognise in a text by the file's own types.
    """
    found = []
    for id, (text, kind) in enumerate(zip(texts, types, strict=True)):
        is_named = id in named and kind not in (PieceType.UNKNOWN, PieceType.BYTE) and not is_word(text)
        has_look = kind == PieceType.USER_DEFINED and has_control_look(text)
        if kind != PieceType.CONTROL and (is_named or has_look or (kind == PieceType.NORMAL and is_mislabelled(text))):
            types[id] = PieceType.CONTROL
            if kind != PieceType.USER_DEFINED:
                found.append(id)
    return found


def _listed(metadata: Mapping[str, Any], name: str, default: list[Any] | None = None) -> list[Any]:
    values = metadata.get(_KEY + name, default)
    if values is None:
        raise InputError(f"the GGUF file has no {_KEY + name}, which its tokenizer needs; convert the model again")
    if not isinstance(values, list | np.ndarray):
        raise InputError(f"{_KEY + name} is a {type(values).__name__}; expected an array; convert the model again")
    return list(values)


def _texts(tokens: list[Any]) -> list[str]:
    try:
        "".join(tokens).encode()
    except (TypeError, UnicodeEncodeError) as error:
        raise InputError(f"{_KEY}tokens is not an array of UTF-8 strings: {error}") from error
    return tokens


def _pair(merge: Any) -> tuple[str, str]:
    """A merge is "left right", or a pair whose parts may hold spaces themselves."""
    if isinstance(merge, str):
        left, space, right = merge.partition(" ")
        if space:
            return left, right
    elif isinstance(merge, Iterable):
        parts = list(merge)
        if len(parts) == 2 and all(isinstance(part, str) for part in parts):
            return parts[0], parts[1]
    raise InputError(f"{_KEY}merges holds {merge!r}; expected two tokens with a space between")
