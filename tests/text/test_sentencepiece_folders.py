# python -m pytest tests/text/test_sentencepiece_folders.py
"""Folders with a tokenizer.model give the ids of transformers, which tests/peers/sentencepiece_folders.py wrote."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from dllama_py.text.chat import ChatTemplate
from dllama_py.text.tokenizer import Tokenizer

GOLDEN = Path(__file__).parents[1] / "golden" / "sentencepiece"
EXPECTED = json.loads((GOLDEN / "ids.json").read_text("utf-8"))
# The slow tokenizer's is taken for these: in legacy folders the fast one does not find a token that is looked for after
# normalising, for it looks for the space that it has put in front of the token.
OF_THE_SLOW_ONE = "<norm>"


def folder_of(folder: Path, settings: dict[str, Any]) -> Path:
    shutil.copy(GOLDEN / "tokenizer.model", folder)
    config = {"added_tokens_decoder": EXPECTED["added"], "bos_token": "<s>", "eos_token": "</s>", **settings}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


@pytest.mark.parametrize("given", EXPECTED["folders"], ids=lambda given: json.dumps(given["settings"]))
def test_ids_are_those_of_transformers(tmp_path: Path, given: dict[str, Any]) -> None:
    tokenizer = Tokenizer.from_folder(folder_of(tmp_path, given["settings"]))
    for place, text in enumerate(EXPECTED["texts"]):
        expected = given["fast"][place]
        if OF_THE_SLOW_ONE in text and False not in given["settings"].values():
            expected = given["slow"].get(str(place), expected)
        assert tokenizer.encode(text, bos=False) == expected, text


@pytest.mark.parametrize("given", EXPECTED["folders"], ids=lambda given: json.dumps(given["settings"]))
def test_a_chat_has_the_ids_of_its_text(tmp_path: Path, given: dict[str, Any]) -> None:
    tokenizer = Tokenizer.from_folder(folder_of(tmp_path, given["settings"]))
    source = "<s>{% for m in messages %}<|im_start|>{{ m.role }}\n {{ m.content }} <|im_end|>\n{% endfor %} the"
    template = ChatTemplate({"default": source}, tokenizer)
    for word in ("end", "us", "s", "I", "start", "/", "|", "<", "a <", "im", "", " the "):
        messages = [{"role": "user", "content": "the house"}, {"role": "user", "content": word}]
        assert template.encode(messages) == tokenizer.encode(template.render(messages), bos=False), word


def test_the_settings_matter() -> None:
    """Or the tests above could not fail."""
    answers = {json.dumps(given["fast"]) for given in EXPECTED["folders"]}
    assert len(answers) == 3  # legacy, not legacy, no space at all
