# python -m pytest tests/text/test_control_tokens.py
"""What looks like a control token, or is named as one, is written by templates only, whatever its kind in a file."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dllama_py.text import known_vocabularies
from dllama_py.text.chat import ChatTemplate
from dllama_py.text.control_tokens import has_control_look, is_mislabelled, is_word
from dllama_py.text.pieces import BYTE_OF
from dllama_py.text.tokenizer import Tokenizer
from dllama_py.token_list import TokenList
from tests.text.test_chat import CHATML
from tests.text.test_sentencepiece import PIECES, PLAIN, USER, gguf, model

NORMAL, CONTROL, UNUSED = 1, 3, 5
LOOKS = [
    *(
        "<|im_start|>",
        "<|im_end|>",
        "<|eot_id|>",
        "<|user|>",
        "<｜User｜>",
        "<｜end▁of▁sentence｜>",
        "<|turn>",
        "<turn|>",
    ),
    *(
        "<start_of_turn>",
        "<end_of_turn>",
        "[INST]",
        "[/INST]",
        "[TOOL_CALLS]",
        "<<SYS>>",
        "</s>",
        "<s>",
        "<bos>",
        "<eos>",
    ),
    *("<pad>", "<unk>", "<EOT>", "<unused7>", "<extra_id_1>", "<fim_prefix>", "<user>", "<assistant>"),
]
NO_LOOKS = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_response>",
    "<b>",
    "</code>",
    "[a]",
    "[x]",
    "<",
    "hello",
    "▁▁",
    "\n",
]


@pytest.mark.parametrize("text", LOOKS)
def test_the_look(text: str) -> None:
    assert has_control_look(text)


@pytest.mark.parametrize("text", NO_LOOKS)
def test_what_conversations_may_hold(text: str) -> None:
    assert not has_control_look(text) and not is_mislabelled(text)


def test_ordinary_tokens_are_mislabelled_only_where_no_words_make_them() -> None:
    assert all(map(is_mislabelled, ["<|im_end|>", "<end_of_turn>", "[INST]", "<｜User｜>"]))
    assert not any(map(is_mislabelled, ["</s>", "<s>", "<unk>", "<pad>", "[PAD]", "<| x |>", "x<|y|>"]))


def test_words_that_a_model_stops_at_stay_words() -> None:
    assert all(map(is_word, ["\n\n\n", "ĊĊĊ", "▁the", "Ġend", ".", "}\n", "END"]))
    assert not any(map(is_word, ["</s>", "<|im_end|>", "[e~["]))


# ids 256 on: the tokens under test; every maker gives them the kind that protects nobody
Maker = Callable[[list[str], Path], Tokenizer]
LETTERS = sorted(BYTE_OF, key=BYTE_OF.__getitem__)


def gguf_bytes(texts: list[str], folder: Path, kind: int = USER) -> Tokenizer:
    return Tokenizer.from_gguf(
        {
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.pre": "gpt-2",
            "tokenizer.ggml.tokens": [*LETTERS, *texts],
            "tokenizer.ggml.token_type": [NORMAL] * 256 + [kind] * len(texts),
            "tokenizer.ggml.merges": [],
        }
    )


def gguf_pieces(texts: list[str], folder: Path) -> Tokenizer:
    pieces, scores, types = zip(*PIECES, *((text, 0.0, USER) for text in texts), strict=True)
    return Tokenizer.from_gguf(gguf(tokens=list(pieces), scores=list(scores), token_type=list(types)))


def model_folder(texts: list[str], folder: Path) -> Tokenizer:
    added = {str(len(PIECES) + place): {"content": text, "special": False} for place, text in enumerate(texts)}
    (folder / "tokenizer.model").write_bytes(model(PLAIN))
    (folder / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    return Tokenizer.from_folder(folder)


def json_file(texts: list[str], folder: Path, **settings: Any) -> Tokenizer:
    flags = {"special": False, "normalized": False, "single_word": False, "lstrip": False, "rstrip": False}
    parsed = {
        "version": "1.0",
        "added_tokens": [{"id": 256 + place, "content": text, **flags} for place, text in enumerate(texts)],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "vocab": {letter: id for id, letter in enumerate(LETTERS)}, "merges": []},
    }
    return Tokenizer.from_json(json.dumps(parsed).encode(), **settings)


def list_scored(texts: list[str], folder: Path, *, first: list[bytes] | None = None) -> Tokenizer:
    tokens = [*(first or []), *(bytes([byte]) for byte in range(256)), b" hi", *(text.encode() for text in texts)]
    bos_id, eos_id = (1, 2) if first else (len(tokens), len(tokens) + 1)
    tokens += [] if first else [b"<begin>", b"<end>"]
    return Tokenizer.from_token_list(TokenList(tokens, [0.0] * len(tokens), bos_id, (eos_id,), False))


def list_pieces(texts: list[str], folder: Path) -> Tokenizer:
    return list_scored(texts, folder, first=[b"<unk>", b"<s>", b"</s>"])


MAKERS: dict[str, Maker] = {
    "gguf gpt2": gguf_bytes,
    "gguf llama": gguf_pieces,
    "tokenizer.model": model_folder,
    "tokenizer.json": json_file,
    ".t": list_scored,
    ".t of pieces": list_pieces,
}


def source(*marks: str) -> dict[str, str]:
    """A template that writes these around what is said."""
    return {"default": f"{marks[0]}{{{{ messages[0].content }}}}{marks[1]}"}


TURNS = [
    "<|im_start|>",
    "<|im_end|>",
    "<start_of_turn>",
    "<end_of_turn>",
    "[INST]",
    "[/INST]",
    "<｜User｜>",
    "<|eot_id|>",
]
OTHERS = ["<bos>", "<eos>", "<pad>", "<unused7>"]


@pytest.mark.parametrize("maker", MAKERS.values(), ids=MAKERS)
def test_no_reader_lets_a_user_write_one(maker: Maker, tmp_path: Path) -> None:
    texts = TURNS if maker in (list_scored, list_pieces) else [*TURNS, *OTHERS]  # of `.t` the kinds are not known
    tokenizer = maker(texts, tmp_path)
    template = ChatTemplate(source("<|im_start|>", "<|im_end|>"), tokenizer)
    first, last = tokenizer.encode("<|im_start|><|im_end|>", bos=False)
    for text in texts:
        (id,) = tokenizer.encode(text, bos=False)
        assert tokenizer.is_special(id)
        for said in (text, f"hello{text} x", f"{text}\n{text}"):
            ids = template.encode([{"role": "user", "content": said}])
            assert [id for id in ids if tokenizer.is_special(id) and id != tokenizer.bos_id] == [first, last], said
            assert f"{said}<|im_end|>" in tokenizer.decode(ids)


@pytest.mark.parametrize("maker", [gguf_bytes, gguf_pieces, model_folder, json_file])
def test_words_of_the_users_own_kind_are_still_tokens(maker: Maker, tmp_path: Path) -> None:
    tokenizer = maker(["<|im_start|>", "<|im_end|>", "<think>", "<tool_call>"], tmp_path)
    template = ChatTemplate(source("<|im_start|>", "<|im_end|>"), tokenizer)
    (think,) = tokenizer.encode("<think>", bos=False)
    assert template.encode([{"role": "user", "content": "<think><tool_call>"}])[-3:-1] == [think, think + 1]


@pytest.mark.parametrize("kind", [NORMAL, CONTROL, USER, UNUSED])
def test_turn_tokens_of_any_kind_in_a_gguf(byte_metadata: dict[str, Any], kind: int) -> None:
    byte_metadata["tokenizer.ggml.token_type"][261:263] = [kind, kind]
    byte_metadata["tokenizer.ggml.tokens"][261:264] = ["<|user|>", "<|im_start|>", "<|im_end|>"]
    byte_metadata["tokenizer.ggml.token_type"][262:264] = [kind, kind]
    byte_metadata |= {"tokenizer.ggml.eos_token_id": 263, "tokenizer.ggml.bos_token_id": 262}
    tokenizer = Tokenizer.from_gguf(byte_metadata)
    messages = [{"role": "user", "content": "hello<|im_end|> x"}]
    ids = ChatTemplate({"default": CHATML}, tokenizer).encode(messages)
    assert (ids.count(263), ids.count(262)) == (1, 2)
    assert ids[:1] == [262] and tokenizer.eos_ids == {263}
    notes = tokenizer.special_ids.notes
    assert len(notes) == (kind in (NORMAL, UNUSED))
    assert all("<|im_start|> (262), <|im_end|> (263)" in note and "\n" not in note for note in notes)


def test_many_mislabelled_tokens_are_one_line(tmp_path: Path) -> None:
    notes = gguf_bytes([f"<|{place}|>" for place in range(9)], tmp_path, NORMAL).special_ids.notes
    assert notes == (
        "the GGUF file does not mark <|0|> (256), <|1|> (257), <|2|> (258), <|3|> (259) and 5 more as control tokens; "
        "they are read as such",
    )


def changed(metadata: Mapping[str, Any], **keys: Any) -> Tokenizer:
    return Tokenizer.from_gguf({**metadata, **{f"tokenizer.ggml.{key}": value for key, value in keys.items()}})


@pytest.mark.parametrize("ids", [[262, 263], np.array([263, 262], np.uint32), [262, 263, 4294967295], [-1, 262, 263]])
def test_every_end_that_a_gguf_names(byte_metadata: dict[str, Any], ids: Any) -> None:
    del byte_metadata["tokenizer.ggml.eos_token_id"]
    found = changed(byte_metadata, eos_token_ids=ids)
    assert (found.eos_ids, found.special_ids.eos_id) == ({262, 263}, 262)
    assert changed(byte_metadata, eos_token_ids=ids, eos_token_id=263).special_ids.eos_id == 263
    assert changed(byte_metadata, eot_token_id=263, eom_token_id=261).eos_ids == {261, 262, 263}


def test_a_word_that_a_gguf_names_as_an_end_stays_a_word(byte_metadata: dict[str, Any]) -> None:
    found = changed(byte_metadata, eos_token_ids=[256, 10])
    assert {256, 10} <= found.eos_ids and found.encode("he\n", special=False, bos=False) == [256, 10]
    assert found.special_ids.notes == ()


def test_tokens_that_settings_name_are_control_tokens(tmp_path: Path) -> None:
    """Of no known look; the last by its id alone, and one that is an ordinary word of the vocabulary."""
    texts = ["]~b]", "[e~[", "~user~", "~end~"]
    config = {"bos_token": "]~b]", "eos_token": {"content": "[e~["}, "additional_special_tokens": ["~user~"]}
    tokenizer = json_file(texts, tmp_path, tokenizer_config=config, generation_config={"eos_token_id": [259, 65]})
    assert set(tokenizer.special_texts()) == set(texts)
    assert tokenizer.encode("A", special=False, bos=False) == [65]
    (tmp_path / "tokenizer.model").write_bytes(model(PLAIN))
    added = {str(270 + place): {"content": text, "special": False} for place, text in enumerate(texts)}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**config, "added_tokens_decoder": added}))
    (tmp_path / "config.json").write_text(json.dumps({"eos_token_id": 273}))
    assert set(Tokenizer.from_folder(tmp_path).special_texts()) == {*texts, "<unk>", "<s>", "</s>"}


def test_a_named_end_of_a_known_list_is_a_control_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the vocabulary before the begin token holds it, as Qwen's does `</s>`."""
    ordinary = [*(bytes([byte]) for byte in range(256)), b"</s>"]
    monkeypatch.setattr(known_vocabularies, "_RULES", {known_vocabularies.fingerprint(ordinary): "qwen2"})
    stored = TokenList([*ordinary, b"<|begin|>", b"~end~"], [0.0] * 259, 257, (256, 258), False)
    found = Tokenizer.from_token_list(stored)
    assert found.special_texts() == {"<|begin|>", "~end~", "</s>"}
    assert found.encode("</s>~end~") == [256, 258]
    assert not {256, 258} & set(found.encode("</s>~end~", special=False))
