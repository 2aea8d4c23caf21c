"""Which tokens begin a text and end an answer, from whatever a model's files say. Knows no encoding."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dllama_py.errors import InputError


@dataclass(frozen=True, slots=True)
class SpecialIds:
    """`eos_id` is the one a template means by its eos token; an answer stops at any of `eos_ids`.

    notes: what its user should know of how the files were read, a line each.
    """

    bos_id: int | None = None
    add_bos: bool = False  # whether plain text gets the begin token in front
    eos_id: int | None = None
    eos_ids: frozenset[int] = frozenset()
    notes: tuple[str, ...] = ()

    def checked(self, n_tokens: int) -> "SpecialIds":
        """Itself; InputError if an id has no token."""
        for id in [self.bos_id, self.eos_id, *self.eos_ids]:
            if id is not None and not 0 <= id < n_tokens:
                raise InputError(
                    f"the model's settings name {id} as begin or end token; its tokenizer has ids 0 to {n_tokens - 1}; "
                    "take tokenizer and settings from the same model"
                )
        return self


@dataclass(frozen=True, slots=True)
class HuggingFaceSettings:
    """Contents of the JSON files beside a tokenizer.json; a missing file is an empty mapping."""

    tokenizer_config: Mapping[str, Any]
    config: Mapping[str, Any]
    generation_config: Mapping[str, Any]
    special_tokens_map: Mapping[str, Any] = field(default_factory=dict)

    def control_texts(self) -> frozenset[str]:
        """Every token that the files call special, by a name such as eos_token or in a list."""
        found: list[Any] = []
        for source in (self.special_tokens_map, self.tokenizer_config):
            found += [value for key, value in source.items() if key.endswith("_token")]
            for more in (source.get("additional_special_tokens"), source.get("extra_special_tokens")):
                found += more.values() if isinstance(more, dict) else more if isinstance(more, list) else []
        added = self.tokenizer_config.get("added_tokens_decoder")
        entries = added.values() if isinstance(added, dict) else []
        found += [entry for entry in entries if isinstance(entry, dict) and entry.get("special") is True]
        texts = (token.get("content") if isinstance(token, dict) else token for token in found)
        return frozenset(text for text in texts if isinstance(text, str) and text)


def read_settings(path: Path) -> Mapping[str, Any]:
    """The object in a JSON file, empty if there is no file; InputError if it is something else."""
    if not path.is_file():
        return {}
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:  # the second where it is nested too deeply
        raise InputError(f"{path} is not JSON ({error}); copy it again from the model's page") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} holds a {type(content).__name__}; expected a JSON object")
    return content


def from_settings(
    settings: HuggingFaceSettings, id_of: Callable[[str], int | None], prefixed: Iterable[int]
) -> SpecialIds:
    """Names are resolved by id_of; null means none and 0 is an id. prefixed: what the tokenizer itself puts in front.

    The end ids are the union of all files. The begin token is that of tokenizer_config, else of the other two.
    """
    of_tokenizer = settings.tokenizer_config
    sources = (settings.generation_config, settings.config)
    if "bos_token" in of_tokenizer:
        bos_ids = _named(of_tokenizer["bos_token"], id_of)
    else:
        bos_ids = [id for source in sources for id in _listed(source.get("bos_token_id"))]
    bos_id = bos_ids[0] if bos_ids else None
    by_name = _named(of_tokenizer.get("eos_token"), id_of)
    eos_ids = by_name + [id for source in sources for id in end_ids_in(source)]
    add_bos = of_tokenizer.get("add_bos_token")
    return SpecialIds(
        bos_id=bos_id,
        add_bos=bos_id is not None and (bos_id in prefixed if add_bos is None else bool(add_bos)),
        eos_id=eos_ids[0] if eos_ids else None,
        eos_ids=frozenset(eos_ids),
    )


def _named(token: Any, id_of: Callable[[str], int | None]) -> list[int]:
    text = token.get("content") if isinstance(token, dict) else token  # both spellings occur in the wild
    if text is None:
        return []
    id = id_of(text) if isinstance(text, str) and is_unicode(text) else None
    if id is None:
        raise InputError(
            f"tokenizer_config.json names {text!r} as begin or end token; tokenizer.json has no such token"
        )
    return [id]


def is_unicode(text: str) -> bool:
    """Whether it has no half of a surrogate pair, which JSON can hold and UTF-8 cannot."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def end_ids(settings: HuggingFaceSettings) -> frozenset[int]:
    """The end tokens that are given as ids, which takes no vocabulary."""
    return frozenset([*end_ids_in(settings.generation_config), *end_ids_in(settings.config)])


def end_ids_in(source: Mapping[str, Any]) -> list[int]:
    """The ids that one of the JSON files gives, in its order."""
    return _listed(source.get("eos_token_id"))


def first_id(ids: Any) -> int | None:
    """The id, or the first of a list of ids; None where there is none."""
    return next(iter(_listed(ids)), None)


def folder_settings(folder: Path) -> HuggingFaceSettings:
    """What the JSON files of a Hugging Face folder say, each empty if it is not there."""
    names = ("tokenizer_config", "config", "generation_config", "special_tokens_map")
    return HuggingFaceSettings(*[read_settings(folder / f"{name}.json") for name in names])


def _listed(ids: Any) -> list[int]:
    if ids is None:
        return []
    listed = ids if isinstance(ids, list) else [ids]
    if not all(type(id) is int for id in listed):
        raise InputError(f"a begin or end token is {ids!r} in the model's settings; expected an id or a list of ids")
    return [id for id in listed if id != -1]  # which says that there is none
