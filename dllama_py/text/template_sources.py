"""Where a model's files keep its chat templates, by name. Knows nothing of what is in them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dllama_py.errors import InputError
from dllama_py.text.special_ids import read_settings

_KEY = "tokenizer.chat_template"


def folder_sources(folder: Path) -> dict[str, Any]:
    """Of a Hugging Face folder: chat_template.jinja goes before chat_template in tokenizer_config.json."""
    found = read_settings(folder / "tokenizer_config.json").get("chat_template")
    sources = _named_sources(found) if isinstance(found, list) else {} if found is None else {"default": found}
    for path in sorted(folder.glob("additional_chat_templates/*.jinja")):
        sources[path.stem] = _read(path)
    own = folder / "chat_template.jinja"
    if own.is_file():
        sources["default"] = _read(own)
    return sources


def gguf_sources(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Of a GGUF file: tokenizer.chat_template and tokenizer.chat_template.NAME."""
    sources = {key.removeprefix(_KEY + "."): metadata[key] for key in metadata if key.startswith(_KEY + ".")}
    if _KEY in metadata:
        sources["default"] = metadata[_KEY]
    return sources


def _named_sources(entries: list[Any]) -> dict[str, Any]:
    try:
        return {str(entry["name"]): entry["template"] for entry in entries}
    except (TypeError, KeyError):
        raise InputError(
            "chat_template in tokenizer_config.json is a list, but not of objects with name and template; get it again"
        ) from None


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is no UTF-8; get the chat template again") from None
