"""An encoder from a Hugging Face tokenizer.json and the settings beside it."""

import json
import re
from typing import Any

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from dllama_py.errors import InputError
from dllama_py.text.special_ids import HuggingFaceSettings, SpecialIds, from_settings

# Some vocabularies mark tokens of this look (fill-in-the-middle, file separators) as ordinary; a user must not forge
# them.
_CONTROL_LOOK = re.compile(r"<\|.*\|>|<｜.*｜>", re.DOTALL)


def from_json(data: bytes, settings: HuggingFaceSettings) -> tuple[Backend, SpecialIds]:
    """InputError if the bytes are not a tokenizer.json or the settings name unknown tokens."""
    try:
        backend = Backend.from_buffer(data)
    except Exception as error:  # the library raises a bare Exception
        raise InputError(f"tokenizer.json cannot be read: {error}; copy it again from the model's page") from error
    _mark_control_tokens(backend)
    backend.no_truncation()
    backend.no_padding()
    return backend, from_settings(settings, backend.token_to_id, backend.encode("").ids)


def is_byte_level(backend: Backend) -> bool:
    """Whether tokens are spelled in GPT-2's byte alphabet."""
    return any(step["type"] == "ByteLevel" for step in _decoder_steps(backend))


def drops_first_space(backend: Backend) -> bool:
    """Whether the vocabulary writes a space before the first word, to be dropped at the start of a text."""
    return any(
        (step["type"] == "Strip" and step.get("content") == " " and step.get("start") == 1)
        or (step["type"] == "Metaspace" and step.get("prepend_scheme", "always") != "never")
        for step in _decoder_steps(backend)
    )


def _decoder_steps(backend: Backend) -> list[dict[str, Any]]:
    if backend.decoder is None:
        return []
    decoder: dict[str, Any] = json.loads(backend.decoder.__getstate__())
    steps: list[dict[str, Any]] = decoder.get("decoders", [decoder])
    return steps


def _mark_control_tokens(backend: Backend) -> None:
    tokens = backend.get_added_tokens_decoder().values()
    backend.add_special_tokens(
        [
            AddedToken(token.content, special=True, normalized=False, lstrip=token.lstrip, rstrip=token.rstrip)
            for token in tokens
            if not token.special and _CONTROL_LOOK.fullmatch(token.content)
        ]
    )
