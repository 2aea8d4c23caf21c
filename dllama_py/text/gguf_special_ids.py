"""Begin and end tokens by the tokenizer.ggml.* keys of a GGUF file. Knows no encoding."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dllama_py.errors import InputError
from dllama_py.text.control_tokens import end_texts
from dllama_py.text.special_ids import SpecialIds

_KEY = "tokenizer.ggml."
_BEGIN = "bos_token_id"
_ENDS = ("eos_token_id", "eot_token_id", "eom_token_id")
_LIST = "eos_token_ids"
_NONE = (-1, 2**32 - 1, 2**64 - 1)  # how writers say that there is no such token


def named_ids(metadata: Mapping[str, Any]) -> set[int]:
    """Every begin and end token that the file names. InputError for what is no id."""
    ids = [_id_at(metadata, name) for name in (_BEGIN, *_ENDS)]
    return {id for id in [*ids, *_listed_ends(metadata)] if id is not None}


def named_end_ids(metadata: Mapping[str, Any]) -> frozenset[int]:
    """The end tokens among them."""
    ids = [_id_at(metadata, name) for name in _ENDS]
    return frozenset(id for id in [*ids, *_listed_ends(metadata)] if id is not None)


def special_ids(
    metadata: Mapping[str, Any],
    control: Mapping[str, int],
    n_tokens: int,
    *,
    add_bos: bool,
    defaults: tuple[int, int] | None = None,
) -> SpecialIds:
    """control: ids of the control tokens. add_bos and the defaults of begin and end token hold unless the file says
    otherwise; a default that has no token does not count. InputError for an id that the file names and has no token.
    """
    _refuse_impossible(metadata, n_tokens)
    first, last = (id if defaults and id < n_tokens else None for id in defaults or (0, 0))
    bos_id, eos_id = _id_at(metadata, _BEGIN, first), _id_at(metadata, _ENDS[0], last)
    listed = sorted(_listed_ends(metadata))
    eos_id = listed[0] if eos_id is None and listed else eos_id
    ends = {eos_id, *named_end_ids(metadata), *(control[text] for text in end_texts(control))}
    return SpecialIds(
        bos_id=bos_id,
        add_bos=bos_id is not None and bool(metadata.get(_KEY + "add_bos_token", add_bos)),
        eos_id=eos_id,
        eos_ids=frozenset(id for id in ends if id is not None),
    )


def _id_at(metadata: Mapping[str, Any], name: str, default: int | None = None) -> int | None:
    id = metadata.get(_KEY + name, default)
    if not isinstance(id, int | None) or isinstance(id, bool):
        raise InputError(f"{_KEY + name} is {id!r}; expected a token id; convert the model again")
    return None if id in _NONE else id


def _listed_ends(metadata: Mapping[str, Any]) -> list[int]:
    listed = metadata.get(_KEY + _LIST, [])
    ids = listed.tolist() if isinstance(listed, np.ndarray) else listed if isinstance(listed, list) else [listed]
    if not all(type(id) is int for id in ids):
        raise InputError(f"{_KEY + _LIST} is {listed!r:.60}; expected token ids; convert the model again")
    return [id for id in ids if id not in _NONE]


def _refuse_impossible(metadata: Mapping[str, Any], n_tokens: int) -> None:
    named = [(name, _id_at(metadata, name)) for name in (_BEGIN, *_ENDS)]
    for name, id in [*named, *((_LIST, id) for id in _listed_ends(metadata))]:
        if id is not None and not 0 <= id < n_tokens:
            raise InputError(
                f"the GGUF file's {_KEY + name} is {id}, its tokenizer has ids 0 to {n_tokens - 1}; convert the model "
                "again, or correct that key with gguf-py's gguf_set_metadata.py (-1 means no such token)"
            )
