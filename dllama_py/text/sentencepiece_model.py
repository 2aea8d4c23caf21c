"""A `tokenizer.model` of SentencePiece: the few fields of its protocol buffer that say how text is cut.

Field numbers are those of sentencepiece_model.proto; unknown fields are skipped, as that format wants it.
"""

import math
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from dllama_py.errors import InputError
from dllama_py.text.added_tokens import Surroundings
from dllama_py.text.control_tokens import has_control_look, is_word
from dllama_py.text.merging_vocabulary import Prefix
from dllama_py.text.sentencepiece import PieceType, sentencepiece_vocabulary
from dllama_py.text.special_ids import HuggingFaceSettings, SpecialIds, end_ids, from_settings
from dllama_py.text.vocabulary import Vocabulary

_PIECE, _TRAINER, _NORMALIZER = 1, 2, 3  # fields of the model
_TEXT, _SCORE, _TYPE = 1, 2, 3  # of a piece
_MODEL_TYPE, _BOS, _EOS = 3, 41, 42  # of the trainer's settings
_CHARSMAP, _PREFIX, _SINGLE_SPACES = 2, 3, 4  # of the normaliser
_UNIGRAM, _BPE = 1, 2
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # wire types

Value = int | bytes


@dataclass(slots=True)
class _Model:
    pieces: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    types: list[int] = field(default_factory=list)
    trainer: dict[int, Value] = field(default_factory=dict)
    normalizer: dict[int, Value] = field(default_factory=dict)

    def add(self, text: str, score: float, kind: int) -> None:
        self.pieces.append(text)
        self.scores.append(score)
        self.types.append(kind)


def from_model(data: bytes, settings: HuggingFaceSettings) -> tuple[Vocabulary, SpecialIds]:
    """From the bytes of a tokenizer.model and the JSON files beside it, whose added tokens come after the pieces.

    InputError where it is damaged, of another kind than BPE, or rewrites characters before it cuts.
    """
    try:
        model = _parsed(data)
    except (ValueError, struct.error, IndexError, TypeError, AttributeError) as error:
        raise InputError(f"tokenizer.model cannot be read ({error}); copy it again from the model's page") from None
    _check(model)
    surroundings = _add_tokens(model, settings)
    vocabulary = sentencepiece_vocabulary(
        model.pieces,
        model.scores,
        model.types,
        prefix=_prefix(model, settings),
        single_spaces=bool(model.normalizer.get(_SINGLE_SPACES, 1)),
        surroundings=surroundings,
    )
    return vocabulary, _special_ids(model, settings)


def _prefix(model: _Model, settings: HuggingFaceSettings) -> Prefix:
    """As transformers 4 reads the settings: legacy unless they say otherwise."""
    if not model.normalizer.get(_PREFIX, 1) or settings.tokenizer_config.get("add_prefix_space") is False:
        return Prefix.NEVER
    return Prefix.FIRST if settings.tokenizer_config.get("legacy") is False else Prefix.ALWAYS


def _special_ids(model: _Model, settings: HuggingFaceSettings) -> SpecialIds:
    """By the settings; what they leave out is as the model says. Llama's own classes begin every text."""
    id_of = {text: id for id, text in enumerate(model.pieces)}
    of_tokenizer = {"add_bos_token": True, **settings.tokenizer_config}
    for name, key, default in (("bos_token", _BOS, 1), ("eos_token", _EOS, 2)):
        id = _signed(model.trainer.get(key, default))
        if name not in of_tokenizer and 0 <= id < len(model.pieces):
            of_tokenizer[name] = model.pieces[id]
    full = HuggingFaceSettings(of_tokenizer, settings.config, settings.generation_config)
    return from_settings(full, id_of.get, [])


def _check(model: _Model) -> None:
    kind = model.trainer.get(_MODEL_TYPE, _UNIGRAM)
    if kind != _BPE:
        found = "Unigram" if kind == _UNIGRAM else f"number {kind!r}"
        raise InputError(
            f"tokenizer.model is of the kind {found}; only BPE can be read; use a tokenizer.json of the same model"
        )
    if model.normalizer.get(_CHARSMAP):
        raise InputError(
            "tokenizer.model rewrites characters before it cuts, which is not done here; "
            "use a tokenizer.json of the same model"
        )
    if not model.pieces or not all(map(math.isfinite, model.scores)):
        raise InputError("tokenizer.model has no pieces, or one whose score is no number; copy it again")


def _add_tokens(model: _Model, settings: HuggingFaceSettings) -> dict[int, Surroundings]:
    """Those of added_tokens_decoder in tokenizer_config.json; an id among the pieces makes that piece one of them.
    Control tokens are those that are said to be, by either file, and those with their look.
    """
    surroundings = {}
    for id, token in _listed(settings):
        text, kind = str(token["content"]), PieceType.CONTROL if token.get("special") else PieceType.USER_DEFINED
        if id == len(model.pieces):
            model.add(text, 0.0, kind)
        elif 0 <= id < len(model.pieces) and model.pieces[id] == text:
            model.types[id] = PieceType.UNKNOWN if model.types[id] == PieceType.UNKNOWN else kind
        else:
            raise InputError(
                f"tokenizer_config.json adds {text!r} as token {id}, which does not go with the "
                f"{len(model.pieces)} tokens before it; take all files from the same model"
            )
        surroundings[id] = Surroundings(*(bool(token.get(name)) for name in ("lstrip", "rstrip", "single_word")))
    _set_controls(model, settings)
    return surroundings


def _listed(settings: HuggingFaceSettings) -> list[tuple[int, Mapping[str, Any]]]:
    added = settings.tokenizer_config.get("added_tokens_decoder", {})
    try:
        entries = sorted(((int(id), token) for id, token in added.items()), key=lambda entry: entry[0])
        if not all("content" in token and isinstance(token, dict) for _, token in entries):
            raise TypeError
    except (TypeError, ValueError, AttributeError):
        raise InputError(
            "added_tokens_decoder in tokenizer_config.json is not a list of tokens by their ids; copy it again"
        ) from None
    return entries


def _set_controls(model: _Model, settings: HuggingFaceSettings) -> None:
    ends, named = end_ids(settings), settings.control_texts()
    trained = {_signed(model.trainer.get(key, default)) for key, default in ((_BOS, 1), (_EOS, 2))}
    for id, (text, kind) in enumerate(zip(model.pieces, model.types, strict=True)):
        is_named = (text in named or id in ends or id in trained) and not is_word(text)
        has_look = kind == PieceType.USER_DEFINED and has_control_look(text)
        if has_look or (is_named and kind in (PieceType.NORMAL, PieceType.USER_DEFINED)):
            model.types[id] = PieceType.CONTROL


def _parsed(data: bytes) -> _Model:
    model = _Model()
    for number, value in _fields(data):
        if number == _PIECE:
            piece = dict(_fields(_as_bytes(value)))
            score = struct.unpack("<f", _as_bytes(piece.get(_SCORE, b"\0\0\0\0")))[0]
            kind = int(piece.get(_TYPE, PieceType.NORMAL))
            model.add(_as_bytes(piece.get(_TEXT, b"")).decode(), score, PieceType(kind))
        elif number == _TRAINER:
            model.trainer = dict(_fields(_as_bytes(value)))
        elif number == _NORMALIZER:
            model.normalizer = dict(_fields(_as_bytes(value)))
    return model


def _as_bytes(value: Value) -> bytes:
    if isinstance(value, int):
        raise ValueError(f"a number {value} where bytes belong")
    return value


def _signed(value: Value) -> int:
    """An int32, which the format writes as 64 bits of two's complement."""
    return value - (1 << 64) if isinstance(value, int) and value >> 63 else int(value) if isinstance(value, int) else -1


def _fields(data: bytes) -> Iterator[tuple[int, Value]]:
    """(field number, value) pairs: a number for a varint, else the bytes."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number, wire = key >> 3, key & 7
        if wire == _VARINT:
            value, place = _varint(data, place)
            yield number, value
            continue
        if wire == _BYTES:
            length, place = _varint(data, place)
        elif wire in (_FIXED32, _FIXED64):
            length = 4 if wire == _FIXED32 else 8
        else:
            raise ValueError(f"wire type {wire} at byte {place}")
        if place + length > len(data):
            raise ValueError(f"{length} bytes wanted at byte {place}, there are {len(data)}")
        yield number, data[place : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """The number and the place after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError(f"a number of more than ten bytes at byte {place}")
