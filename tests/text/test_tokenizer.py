# python -m pytest tests/text/test_tokenizer.py
"""Ids from text and text from ids, from GGUF metadata and from tokenizer.json; begin and end ids of any spelling."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dllama_py.errors import InputError
from dllama_py.text.stream import StreamDecoder
from dllama_py.text.tokenizer import Tokenizer

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "smollm2-135m-instruct.json").read_text("utf-8"))["cases"]

SCRIPTS = [
    "def f(x):\n    return x ** 2  # 1234567 3.14\r\n\tif a != b:",
    "Привет, мир! Γειά σου مرحبا שלום हिन्दी ไทย தமிழ்",
    "日本語のテキスト。中文文本，한국어",
    "👨‍👩‍👧 🦙 🇩🇪 👍🏽",
    "e\u0301 \u00e9  \u00a0\u3000 \x00\x7f\ufffd",
    "   leading and trailing   \n\n",
    "",
]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["prompt"][:20])
def test_smollm2_gives_the_reference_ids(smollm2: Tokenizer, case: dict[str, Any]) -> None:
    assert smollm2.encode(case["text"]) == case["ids"]
    assert smollm2.decode(case["ids"]) == case["text"]
    assert smollm2.decode(case["greedy"]) == case["greedy_text"]


def test_smollm2_settings(smollm2: Tokenizer) -> None:
    assert (smollm2.vocab_size, smollm2.bos_id, smollm2.eos_ids) == (49152, 1, frozenset({0, 2}))
    assert smollm2.encode("2024 years") == [34, 32, 34, 36, 929]
    assert smollm2.encode("x", bos=True)[0] == 1
    assert [smollm2.is_special(id) for id in (1, 2, 504)] == [True, True, False]


@pytest.mark.parametrize("text", SCRIPTS)
def test_text_comes_back_whole_and_streamed(smollm2: Tokenizer, text: str) -> None:
    ids = smollm2.encode(text)
    decoder = StreamDecoder(smollm2.piece)
    assert smollm2.decode(ids) == text
    assert "".join(map(decoder.feed, ids)) + decoder.finish() == text


def test_control_tokens_in_content_stay_text(smollm2: Tokenizer, tiny: Tokenizer) -> None:
    assert smollm2.encode("<|im_end|>") == [2]
    content = smollm2.encode("a<|im_end|>b", special=False)
    assert not any(map(smollm2.is_special, content))
    assert smollm2.decode(content) == "a<|im_end|>b"
    assert tiny.encode("he<|im_end|><think>", bos=False) == [256, 262, 264]
    assert tiny.encode("he<|im_end|><think>", bos=False, special=False)[-1] == 264  # not a control token


@pytest.mark.timeout(60)  # at a quadratic pace it would take hours
def test_a_long_run_of_one_letter_ends(smollm2: Tokenizer) -> None:
    assert smollm2.decode(smollm2.encode("a" * 100_000)) == "a" * 100_000


def test_gguf_pads_are_no_tokens_and_numpy_types_are_read(byte_metadata: dict[str, Any]) -> None:
    byte_metadata["tokenizer.ggml.token_type"] = np.array(byte_metadata["tokenizer.ggml.token_type"], np.int32)
    byte_metadata["tokenizer.ggml.merges"] = [merge.split(" ") for merge in byte_metadata["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer.from_gguf(byte_metadata)
    assert tokenizer.vocab_size == 265
    assert tokenizer.encode("he he\n") == [256, 257, 10]


@pytest.mark.parametrize(
    ("pre", "ids"),
    [
        ("gpt-2", [258, 258, 258]),
        ("smollm", [49, 50, 49, 50, 49, 50]),
        ("qwen2", [49, 50, 49, 50, 49, 50]),
        ("llama-bpe", [260, 258, 49, 50, 258]),
    ],
)
def test_the_split_rule_decides_about_digits(byte_metadata: dict[str, Any], pre: str, ids: list[int]) -> None:
    byte_metadata["tokenizer.ggml.pre"] = pre
    assert Tokenizer.from_gguf(byte_metadata).encode("121212") == ids


def test_qwen2_composes_accents(byte_metadata: dict[str, Any]) -> None:
    byte_metadata["tokenizer.ggml.pre"] = "qwen2"
    assert Tokenizer.from_gguf(byte_metadata).encode("e\u0301") == [0xC3, 0xA9]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tokenizer.ggml.pre": "fancy"}, "'fancy'.*known are .*llama-bpe, .*qwen2, .*smollm"),
        ({"tokenizer.ggml.pre": "default"}, "'default'.*known are"),
        ({"tokenizer.ggml.pre": None}, "no pre-tokenizer name.*known are"),
        ({"tokenizer.ggml.model": "t5"}, "kind 't5'; only 'gpt2' and 'llama' can be read"),
        ({"tokenizer.ggml.model": ["llama"]}, "kind \\['llama'\\]; only"),
        ({"tokenizer.ggml.merges": ["h q"]}, "merges does not fit"),
        ({"tokenizer.ggml.merges": ["he"]}, "'he'; expected two tokens"),
        ({"tokenizer.ggml.token_type": [1, 1]}, "2 entries for 267 tokens"),
        ({"tokenizer.ggml.tokens": ["a", "a"], "tokenizer.ggml.token_type": [1, 1]}, "2 tokens but 1 different"),
        ({"tokenizer.ggml.tokens": 7}, "tokens is a int; expected an array"),
        ({"tokenizer.ggml.tokens": ["a", "\udcff"]}, "not an array of UTF-8 strings"),
        ({"tokenizer.ggml.bos_token_id": "x"}, "bos_token_id is 'x'; expected a token id"),
        (
            {"tokenizer.ggml.eos_token_id": 270},
            "eos_token_id is 270, its tokenizer has ids 0 to 264; convert the model again, or correct",
        ),
    ],
)
def test_bad_metadata_is_refused_in_one_line(
    byte_metadata: dict[str, Any], change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Tokenizer.from_gguf(byte_metadata | change)
    assert "\n" not in str(caught.value)


def test_missing_keys_are_named(byte_metadata: dict[str, Any]) -> None:
    for key in ("tokens", "merges"):
        rest = {name: value for name, value in byte_metadata.items() if not name.endswith(key)}
        with pytest.raises(InputError, match=f"no tokenizer.ggml.{key}"):
            Tokenizer.from_gguf(rest)


def test_all_end_ids_of_all_files_are_joined(word_json: bytes) -> None:
    tokenizer = Tokenizer.from_json(
        word_json,
        generation_config={"eos_token_id": [5, 6, 7]},
        config={"eos_token_id": 5},
        tokenizer_config={"eos_token": {"content": "</s>"}},
    )
    assert tokenizer.eos_ids == frozenset({1, 5, 6, 7})
    assert tokenizer.special_ids.eos_id == 1


@pytest.mark.parametrize(
    ("files", "bos_id", "ids"),
    [
        ({"config": {"bos_token_id": None}, "tokenizer_config": {"add_bos_token": True}}, None, [264]),
        ({"config": {"bos_token_id": 0}, "tokenizer_config": {"add_bos_token": True}}, 0, [0, 264]),
        ({"config": {"bos_token_id": 0}, "tokenizer_config": {"add_bos_token": False}}, 0, [264]),
        ({"config": {"bos_token_id": 0}}, 0, [264]),
        ({"tokenizer_config": {"bos_token": "<s>", "add_bos_token": True}}, 0, [0, 264]),
        ({"tokenizer_config": {"bos_token": None, "add_bos_token": True}, "config": {"bos_token_id": 0}}, None, [264]),
        ({}, None, [264]),
    ],
)
def test_the_begin_id(word_json: bytes, files: dict[str, Any], bos_id: int | None, ids: list[int]) -> None:
    tokenizer = Tokenizer.from_json(word_json, **files)
    assert tokenizer.bos_id == bos_id
    assert tokenizer.encode("Hi") == ids


def test_a_begin_token_of_the_post_processor_is_added_once(word_json: bytes) -> None:
    parsed = json.loads(word_json)
    parsed["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [0], "tokens": ["<s>"]}},
    }
    tokenizer = Tokenizer.from_json(json.dumps(parsed).encode(), tokenizer_config={"bos_token": "<s>"})
    assert tokenizer.encode("Hi") == [0, 264]
    assert tokenizer.encode("Hi", bos=False) == [264]


def test_byte_tokens_and_the_first_space(word_json: bytes) -> None:
    tokenizer = Tokenizer.from_json(word_json)
    ids = tokenizer.encode("Hi 🦙")
    assert ids == [264, 259, 3 + 0xF0, 3 + 0x9F, 3 + 0xA6, 3 + 0x99]
    assert tokenizer.decode(ids) == "Hi 🦙"
    decoder = StreamDecoder(tokenizer.piece, drop_first_space=tokenizer.drops_first_space)
    assert [decoder.feed(id) for id in ids] == ["Hi", " ", "", "", "", "🦙"]
    assert tokenizer.decode([3 + 0xFF, 262]) == "\ufffdA"
    assert tokenizer.encode("</s>", special=False).count(1) == 0


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"tokenizer_config": {"eos_token": "<none>"}}, "names '<none>'"),
        ({"config": {"eos_token_id": "two"}}, "is 'two'.*expected an id or a list"),
        ({"config": {"eos_token_id": 999}}, "name 999.*0 to 264"),
    ],
)
def test_settings_that_name_no_token_are_refused(word_json: bytes, files: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Tokenizer.from_json(word_json, **files)


def test_a_folder_is_read_and_its_faults_are_named(word_json: bytes, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no tokenizer.json"):
        Tokenizer.from_folder(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(word_json)
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [1, 2]}')
    assert Tokenizer.from_folder(tmp_path).eos_ids == frozenset({1, 2})
    for content in ("{", "[" * 100_000):
        (tmp_path / "config.json").write_text(content)
        with pytest.raises(InputError, match="config.json is not JSON"):
            Tokenizer.from_folder(tmp_path)
    (tmp_path / "config.json").unlink()
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InputError, match="tokenizer.json cannot be read"):
        Tokenizer.from_folder(tmp_path)


def test_generation_config_goes_before_config(word_json: bytes) -> None:
    files = {
        "generation_config": {"bos_token_id": 1, "eos_token_id": 2},
        "config": {"bos_token_id": 0, "eos_token_id": [1]},
    }
    special = Tokenizer.from_json(word_json, **files).special_ids
    assert (special.bos_id, special.eos_id, special.eos_ids) == (1, 2, {1, 2})


def test_of_two_merges_to_one_token_the_first_gives_its_score(word_json: bytes) -> None:
    parsed = json.loads(word_json)
    parsed["model"]["vocab"]["Hi"] = 265
    parsed["model"]["merges"] = [["\u2581H", "i"], ["\u2581", "H"], ["H", "i"], ["\u2581", "Hi"]]
    scores = Tokenizer.from_json(json.dumps(parsed).encode()).token_list().scores
    assert [scores[id] for id in (264, 263, 265)] == [0.0, -1.0, -2.0]  # " Hi", " H", "Hi"
    assert scores[0] == scores[3] == -270.0  # what no merge makes comes after all others


def test_an_added_token_is_spelled_as_it_is(byte_metadata: dict[str, Any]) -> None:
    """Not in the byte alphabet, in which é is the byte 0xE9."""
    byte_metadata["tokenizer.ggml.tokens"][264] = "<é>"
    tokenizer = Tokenizer.from_gguf(byte_metadata)
    assert tokenizer.piece(264) == "<é>".encode()
    assert tokenizer.decode(tokenizer.encode("é<é>", bos=False)) == "é<é>"


def test_an_ordinary_token_with_the_name_of_an_end_is_none(byte_metadata: dict[str, Any]) -> None:
    """Where words may have been merged to it, and the file does not name it: Qwen's vocabulary has `</s>`."""
    byte_metadata["tokenizer.ggml.tokens"][256] = "</s>"
    byte_metadata["tokenizer.ggml.merges"] = ["1 2", "3 4"]
    assert Tokenizer.from_gguf(byte_metadata).eos_ids == {262}
    assert not Tokenizer.from_gguf(byte_metadata).is_special(256)
    byte_metadata["tokenizer.ggml.eos_token_id"] = 256
    assert Tokenizer.from_gguf(byte_metadata).eos_ids == {256, 262}
    assert Tokenizer.from_gguf(byte_metadata).is_special(256)


def test_harmony_ends_an_answer_by_its_last_message(byte_metadata: dict[str, Any]) -> None:
    """Of gpt-oss's vocabulary; elsewhere <|end|> ends an answer."""
    byte_metadata["tokenizer.ggml.tokens"][256:258] = ["<|end|>", "<|return|>"]
    byte_metadata["tokenizer.ggml.token_type"][256:258] = [3, 3]
    byte_metadata["tokenizer.ggml.merges"] = ["3 4"]
    assert Tokenizer.from_gguf(byte_metadata).eos_ids == {256, 257, 262}
    byte_metadata["tokenizer.ggml.tokens"][258] = "<|call|>"
    byte_metadata["tokenizer.ggml.token_type"][258] = 3
    byte_metadata["tokenizer.ggml.merges"] = []
    assert Tokenizer.from_gguf(byte_metadata).eos_ids == {257, 258, 262}


def test_a_token_that_looks_like_a_control_token_is_one(word_json: bytes) -> None:
    parsed = json.loads(word_json)
    parsed["model"]["vocab"]["<|fim|>"] = 265
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    parsed["added_tokens"].append({"id": 265, "content": "<|fim|>", "special": False} | flags)
    tokenizer = Tokenizer.from_json(json.dumps(parsed).encode())
    assert tokenizer.is_special(265)
    assert tokenizer.encode("<|fim|>") == [265]
    assert 265 not in tokenizer.encode("<|fim|>", special=False)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("pre_tokenizer", {"type": "Split", "pattern": {"Regex": "(a+)+$"}, "behavior": "Isolated", "invert": False}),
        ("model", {"type": "Unigram", "vocab": [["a", -1.0]], "unk_id": None}),
        ("model", {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "[UNK]"}),
    ],
)
def test_what_the_library_fails_at_is_refused(word_json: bytes, entry: str, value: dict[str, Any]) -> None:
    tokenizer = Tokenizer.from_json(json.dumps(json.loads(word_json) | {entry: value}).encode())
    with pytest.raises(InputError, match=r"^the tokenizer cannot encode this text \(.*\); get its files again$"):
        tokenizer.encode("a" * 40 + "!")


def test_an_id_far_from_the_others_is_refused(word_json: bytes) -> None:
    content = json.loads(word_json)
    content["model"]["vocab"]["far"] = 2**31
    message = "^the tokenizer has 266 tokens, but one with the id 2147483648; expected ids in a row: it is damaged"
    with pytest.raises(InputError, match=message):
        Tokenizer.from_json(json.dumps(content).encode())
