"""A vocabulary from the tokenizer.ggml.* metadata of a GGUF file. Knows the keys, not the file format."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dllama_py.errors import InputError
from dllama_py.text.byte_level import add_tokens, byte_level_backend
from dllama_py.text.pre_tokenizers import split_rule
from dllama_py.text.sentencepiece import PieceType, sentencepiece_vocabulary
from dllama_py.text.special_ids import SpecialIds, end_texts
from dllama_py.text.vocabulary import LibraryVocabulary, Vocabulary

_KEY = "tokenizer.ggml."


@dataclass(frozen=True, slots=True)
class _Listing:
    """Text and type of each token, without the unused ones at the end, which only pad the model's rows."""

    texts: list[str]
    types: list[int]

    def of_type(self, wanted: PieceType) -> list[str]:
        return [text for text, kind in zip(self.texts, self.types, strict=True) if kind == wanted]

    def added(self) -> list[tuple[str, bool]]:
        """Control tokens and those of the user, with whether each is a control token."""
        kinds = (PieceType.CONTROL, PieceType.USER_DEFINED)
        return [(text, kind == kinds[0]) for text, kind in zip(self.texts, self.types, strict=True) if kind in kinds]


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
    return LibraryVocabulary(backend), _special_ids(metadata, listing, add_bos=rule.add_bos)


def _sentencepiece(metadata: Mapping[str, Any]) -> tuple[Vocabulary, SpecialIds]:
    listing = _listing(metadata)
    n_tokens = len(listing.texts)
    try:
        scores = [float(score) for score in _listed(metadata, "scores")[:n_tokens]]
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{_KEY}scores are no numbers ({error}); convert the model again") from None
    if len(scores) != n_tokens or not all(map(math.isfinite, scores)):
        raise InputError(f"{_KEY}scores does not have a number for each of {n_tokens} tokens; convert the model again")
    prefix = bool(metadata.get(_KEY + "add_space_prefix", True))
    single = bool(metadata.get(_KEY + "remove_extra_whitespaces", False))
    vocabulary = sentencepiece_vocabulary(
        listing.texts, scores, listing.types, prefix_space=prefix, single_spaces=single
    )
    return vocabulary, _special_ids(metadata, listing, add_bos=True, bos_id=1, eos_id=2)


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
    while types and types[-1] == PieceType.UNUSED:
        types.pop()
    del texts[len(types) :]
    if not texts or len(set(texts)) != len(texts):
        raise InputError(f"{_KEY}tokens holds {len(texts)} tokens but {len(set(texts))} different ones")
    return _Listing(texts, types)


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


def _special_ids(
    metadata: Mapping[str, Any],
    listing: _Listing,
    *,
    add_bos: bool,
    bos_id: int | None = None,
    eos_id: int | None = None,
) -> SpecialIds:
    """What is given here holds unless the file says otherwise."""

    def id_at(name: str, default: int | None = None) -> int | None:
        id = metadata.get(_KEY + name, default)
        if not isinstance(id, int | None):
            raise InputError(f"{_KEY + name} is {id!r}; expected a token id; convert the model again")
        return id

    bos_id, eos_id = id_at("bos_token_id", bos_id), id_at("eos_token_id", eos_id)
    kinds = zip(listing.texts, listing.types, strict=True)
    special = {text: id for id, (text, kind) in enumerate(kinds) if kind != PieceType.NORMAL}
    ends = {eos_id, id_at("eot_token_id"), id_at("eom_token_id"), *(special[text] for text in end_texts(special))}
    return SpecialIds(
        bos_id=bos_id,
        add_bos=bos_id is not None and bool(metadata.get(_KEY + "add_bos_token", add_bos)),
        eos_id=eos_id,
        eos_ids=frozenset(id for id in ends if id is not None),
    )
