"""A byte-level BPE from the tokenizer.ggml.* metadata of a GGUF file. Knows the keys, not the file format."""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Any

import numpy as np
from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend
from tokenizers.decoders import ByteLevel
from tokenizers.models import BPE

from dllama_py.errors import InputError
from dllama_py.text.pre_tokenizers import SplitRule, split_rule
from dllama_py.text.special_ids import END_TEXTS, SpecialIds

_KEY = "tokenizer.ggml."


class TokenType(IntEnum):
    """The values of tokenizer.ggml.token_type that matter here; the rest are ordinary tokens."""

    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5


def from_metadata(metadata: Mapping[str, Any]) -> tuple[Backend, SpecialIds]:
    """Encoder and special ids. Unused tokens at the end, which only pad the model's rows, are left out.

    InputError for another kind of vocabulary, an unknown pre-tokenizer, missing keys or merges of unknown tokens.
    """
    kind = metadata.get(_KEY + "model")
    if kind != "gpt2":
        raise InputError(
            f"the GGUF file holds a tokenizer of kind {kind!r}; only 'gpt2' can be read from GGUF; "
            "point --tokenizer to the model's Hugging Face folder"
        )
    rule = split_rule(metadata.get(_KEY + "pre"))
    tokens = _texts(_listed(metadata, "tokens"))
    types = [int(kind) for kind in _listed(metadata, "token_type", [1] * len(tokens))]
    if len(types) != len(tokens):
        raise InputError(
            f"tokenizer.ggml.token_type has {len(types)} entries for {len(tokens)} tokens; expected as many"
        )
    while types and types[-1] == TokenType.UNUSED:
        types.pop()
    del tokens[len(types) :]
    backend = _backend(tokens, _listed(metadata, "merges"), rule)
    _add_special(backend, tokens, types)
    return backend, _special_ids(metadata, rule, {text: id for id, text in enumerate(tokens) if types[id] != 1})


def _listed(metadata: Mapping[str, Any], name: str, default: list[Any] | None = None) -> list[Any]:
    values = metadata.get(_KEY + name, default)
    if values is None:
        raise InputError(f"the GGUF file has no {_KEY + name}; a 'gpt2' tokenizer needs it; convert the model again")
    if not isinstance(values, list | np.ndarray):
        raise InputError(f"{_KEY + name} is a {type(values).__name__}; expected an array; convert the model again")
    return list(values)


def _texts(tokens: list[Any]) -> list[str]:
    try:
        "".join(tokens).encode()
    except (TypeError, UnicodeEncodeError) as error:
        raise InputError(f"tokenizer.ggml.tokens is not an array of UTF-8 strings: {error}") from error
    return tokens


def _backend(tokens: list[str], merges: Iterable[Any], rule: SplitRule) -> Backend:
    vocab = {text: id for id, text in enumerate(tokens)}
    if len(vocab) != len(tokens):
        raise InputError(f"tokenizer.ggml.tokens holds {len(tokens)} tokens but {len(vocab)} different ones")
    pairs = [_pair(merge) for merge in merges]
    try:
        backend = Backend(BPE(vocab=vocab, merges=pairs, ignore_merges=rule.ignore_merges))
    except Exception as error:  # the library raises a bare Exception for a merge of unknown tokens
        raise InputError(f"tokenizer.ggml.merges does not fit tokenizer.ggml.tokens: {error}") from error
    backend.normalizer = rule.normalizer()
    backend.pre_tokenizer = rule.pre_tokenizer()
    backend.decoder = ByteLevel()
    return backend


def _pair(merge: Any) -> tuple[str, str]:
    """A merge is "left right", or a pair whose parts may hold spaces themselves."""
    if isinstance(merge, str):
        left, space, right = merge.partition(" ")
        if not space:
            raise InputError(f"tokenizer.ggml.merges holds {merge!r}; expected two tokens with a space between")
        return left, right
    left, right = merge
    return left, right


def _add_special(backend: Backend, tokens: list[str], types: list[int]) -> None:
    """Control tokens can be switched off while encoding; user-defined ones are always recognised."""

    def of_type(wanted: TokenType, special: bool) -> list[AddedToken]:
        texts = [text for text, kind in zip(tokens, types, strict=True) if kind == wanted]
        return [AddedToken(text, special=special, normalized=False) for text in texts]

    backend.add_special_tokens(of_type(TokenType.CONTROL, special=True))
    backend.add_tokens(of_type(TokenType.USER_DEFINED, special=False))


def _special_ids(metadata: Mapping[str, Any], rule: SplitRule, special: Mapping[str, int]) -> SpecialIds:
    def id_at(name: str) -> int | None:
        id = metadata.get(_KEY + name)
        if not isinstance(id, int | None):
            raise InputError(f"{_KEY + name} is {id!r}; expected a token id; convert the model again")
        return id

    bos_id, eos_id = id_at("bos_token_id"), id_at("eos_token_id")
    ends = {eos_id, id_at("eot_token_id"), id_at("eom_token_id"), *(special.get(text) for text in END_TEXTS)}
    return SpecialIds(
        bos_id=bos_id,
        add_bos=bos_id is not None and bool(metadata.get(_KEY + "add_bos_token", rule.add_bos)),
        eos_id=eos_id,
        eos_ids=frozenset(id for id in ends if id is not None),
    )
