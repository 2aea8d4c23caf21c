# python -m pytest tests/text/test_sentencepiece.py
"""SentencePiece vocabularies from tokenizer.model and from GGUF: the same small one, with literal ids."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dllama_py.errors import InputError
from dllama_py.text.sentencepiece_model import from_model
from dllama_py.text.special_ids import HuggingFaceSettings
from dllama_py.text.tokenizer import Tokenizer
from tests.fuzzing import for_some_time

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
# id 0 to 2, then bytes 3 to 258, then pieces
PIECES: list[tuple[str, float, int]] = [
    ("<unk>", 0.0, UNKNOWN),
    ("<s>", 0.0, CONTROL),
    ("</s>", 0.0, CONTROL),
    *((f"<0x{byte:02X}>", 0.0, BYTE) for byte in range(256)),
    ("▁t", -1.0, NORMAL),  # 259
    ("he", -2.0, NORMAL),
    ("▁the", -3.0, NORMAL),
    ("▁▁", -4.0, NORMAL),
    ("▁", -5.0, NORMAL),  # 263
    ("t", -6.0, NORMAL),
    ("h", -7.0, NORMAL),
    ("e", -8.0, NORMAL),
    ("世", -9.0, NORMAL),  # 267
    ("th", -1.5, NORMAL),
    ("<tool>", 0.0, USER),  # 269
]

CASES = [
    ("the", [261]),
    ("the the", [261, 261]),
    (" the", [263, 261]),
    ("the ", [261, 263]),
    ("a", [263, 3 + ord("a")]),
    ("世界", [263, 267, 3 + 0xE7, 3 + 0x95, 3 + 0x8C]),
    ("▁the", [263, 261]),
    ("the\n", [261, 3 + 10]),
    ("the<tool>the", [261, 269, 261]),
    ("the</s>the", [261, 2, 261]),
    ("", []),
]


def field(number: int, value: int | float | bytes) -> bytes:
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value % (1 << 64))
    return varint(number << 3 | 2) + varint(len(value)) + value


def varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes([*found, value])


def model(*more: bytes, kind: int = 2) -> bytes:
    """A tokenizer.model; 23 and 99 are fields that do not matter."""
    pieces = [
        field(1, field(1, text.encode()) + field(2, score) + (field(3, type_) if type_ != NORMAL else b""))
        for text, score, type_ in PIECES
    ]
    return b"".join([*pieces, field(2, field(3, kind) + field(23, 1) + field(43, -1)), field(99, b"x"), *more])


PLAIN = field(3, field(1, b"identity") + field(4, 0))  # the normaliser: spaces stay as they are


def read(data: bytes, **settings_: dict[str, Any]) -> Tokenizer:
    files = {"tokenizer_config": {}, "config": {}, "generation_config": {}} | settings_
    return Tokenizer(*from_model(data, HuggingFaceSettings(**files)))


def gguf(**changes: Any) -> dict[str, Any]:
    texts, scores, types = zip(*PIECES, strict=True)
    metadata = {
        "model": "llama",
        "tokens": list(texts),
        "scores": np.array(scores, np.float32),
        "token_type": np.array(types, np.int32),
    } | changes
    return {f"tokenizer.ggml.{key}": value for key, value in metadata.items()}


@pytest.mark.parametrize(("text", "ids"), CASES)
def test_ids(text: str, ids: list[int]) -> None:
    for tokenizer in (read(model(PLAIN)), Tokenizer.from_gguf(gguf())):
        assert tokenizer.encode(text) == [1, *ids]
        assert tokenizer.decode(ids) == text.replace("▁", " ") or "</s>" in text or "<tool>" in text


def test_begin_and_end_tokens() -> None:
    for tokenizer in (read(model(PLAIN)), Tokenizer.from_gguf(gguf())):
        assert (tokenizer.bos_id, tokenizer.eos_ids, tokenizer.special_ids.add_bos) == (1, {2}, True)
        assert tokenizer.special_texts() == {"<unk>", "<s>", "</s>"}
    silent = read(model(PLAIN), tokenizer_config={"add_bos_token": False, "eos_token": "</s>", "bos_token": "<s>"})
    assert silent.encode("the") == [261] and silent.encode("the", bos=True) == [1, 261]
    assert read(model(PLAIN), generation_config={"eos_token_id": [2, 261]}).eos_ids == {2, 261}
    assert Tokenizer.from_gguf(gguf(bos_token_id=2, eos_token_id=1, add_bos_token=False)).encode("the") == [261]


def test_control_tokens_in_content_stay_text() -> None:
    ids = Tokenizer.from_gguf(gguf()).encode("</s><tool>", special=False)
    assert ids == [1, 263, 3 + ord("<"), 3 + ord("/"), 3 + ord("s"), 3 + ord(">"), 269]


def test_no_space_in_front_where_the_file_says_so() -> None:
    for tokenizer in (
        Tokenizer.from_gguf(gguf(add_space_prefix=False)),
        read(model(field(3, field(3, 0) + field(4, 0)))),
    ):
        assert tokenizer.encode("the") == [1, 268, 266]
        assert not tokenizer.drops_first_space


def test_runs_of_spaces_count_as_one_where_the_file_says_so() -> None:
    for tokenizer in (read(model()), Tokenizer.from_gguf(gguf(remove_extra_whitespaces=True))):
        assert tokenizer.encode("  the   the  ") == [1, 261, 261]
        assert [span for _, span in tokenizer.spans("  the   the  ")] == [(2, 5), (5, 11)]
        assert tokenizer.encode("   ") == [1]
    assert Tokenizer.from_gguf(gguf()).encode("   ") == [1, 262, 262]


def test_runs_of_spaces_may_be_tokens_of_the_users() -> None:
    """As in Gemma's vocabulary: they are found before anything is merged, and stand for spaces."""
    more = [("▁▁▁", 0.0, USER), ("▁▁▁▁", 0.0, USER)]  # 270 and 271
    texts, scores, types = zip(*PIECES, *more, strict=True)
    of_gguf = gguf(tokens=list(texts), scores=list(scores), token_type=list(types), add_space_prefix=False)
    pieces = b"".join(field(1, field(1, text.encode()) + field(2, score) + field(3, USER)) for text, score, _ in more)
    data = model().replace(field(2, field(3, 2) + field(23, 1) + field(43, -1)), pieces + field(2, field(3, 2)))
    for tokenizer in (Tokenizer.from_gguf(of_gguf), read(data + field(3, field(3, 0) + field(4, 0)))):
        assert tokenizer.encode("t    h   e t", bos=False) == [264, 271, 265, 270, 266, 259]
        assert tokenizer.decode([264, 271, 265, 270, 266, 259]) == "t    h   e t"


def test_pads_at_the_end_are_no_tokens() -> None:
    texts, scores, types = zip(*PIECES, ("[PAD]", 0.0, UNUSED), strict=True)
    found = Tokenizer.from_gguf(gguf(tokens=list(texts), scores=list(scores), token_type=list(types)))
    assert found.vocab_size == 270


def test_a_folder_with_added_tokens(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.model").write_bytes(model(PLAIN))
    added = {
        "1": {"content": "<s>", "special": True},
        "270": {"content": "<|im_end|>", "special": True},
        "271": {"content": "<call>", "special": False},
    }
    config = {"added_tokens_decoder": added, "eos_token": {"content": "<|im_end|>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    found = Tokenizer.from_folder(tmp_path)
    assert found.encode("the<|im_end|><call>") == [1, 261, 270, 271]
    assert found.encode("<|im_end|><call>", special=False)[-1] == 271
    assert (found.eos_ids, found.vocab_size) == ({270}, 272)


def test_byte_tokens_may_be_said_to_be_normal() -> None:
    types = [NORMAL if kind == BYTE else kind for _, _, kind in PIECES]
    assert Tokenizer.from_gguf(gguf(token_type=types)).encode("the界t") == [1, 261, 234, 152, 143, 264]


def test_without_byte_tokens_the_unknown_token_stands_for_a_character() -> None:
    types = [UNUSED if kind == BYTE else kind for _, _, kind in PIECES]
    assert Tokenizer.from_gguf(gguf(token_type=types)).encode("the界限t") == [1, 261, 0, 264]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is of the kind Unigram"),
        (model(kind=1), "is of the kind Unigram; only BPE can be read; use a tokenizer.json"),
        (model(kind=4), "is of the kind number 4"),
        (field(2, field(3, 2)), "has no pieces"),
        (model(field(3, field(2, b"map"))), "rewrites characters before it cuts"),
        (model()[:-1], "cannot be read .1 bytes wanted at byte"),
        (b"\xff" * 20, "cannot be read"),
        (b"\x0b", "cannot be read .wire type 3"),
        (field(1, 5), "cannot be read .a number 5 where bytes belong"),
        (field(1, field(1, b"\xff")), "cannot be read .'utf-8'"),
        (field(1, field(1, b"a") + field(3, 9)), "cannot be read .9 is not a valid"),
        (field(1, field(1, b"a") + field(2, float("nan"))) + field(2, field(3, 2)), "whose score is no number"),
        (field(1, field(1, b"<0xZZ>") + field(3, 6)) + field(2, field(3, 2)), "'<0xZZ>' and said to be a byte"),
    ],
)
def test_bad_models_are_refused_in_one_line(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(data)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": [1.0]}, "does not have a number for each of 270"),
        ({"scores": ["x"] * 270}, "scores are no numbers"),
        ({"scores": [float("inf")] * 270}, "does not have a number for each"),
        ({"scores": None}, "no tokenizer.ggml.scores"),
        ({"token_type": ["x"] * 270}, "token_type is no array of numbers"),
        ({"token_type": [float("inf")] * 270}, "token_type is no array of numbers"),
        ({"tokens": []}, "0 entries|270 entries for 0 tokens"),
        ({"eos_token_id": 270}, "eos_token_id is 270, its tokenizer has ids 0 to 269; convert"),
    ],
)
def test_bad_metadata_is_refused_in_one_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        Tokenizer.from_gguf(gguf(**change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("added", "message"),
    [
        ({"271": {"content": "x"}}, "adds 'x' as token 271, which does not go with the 270 tokens"),
        ({"261": {"content": "x"}}, "adds 'x' as token 261"),
        ({"x": {"content": "x"}}, "is not a list of tokens"),
        ([], "is not a list of tokens"),
        ({"270": "x"}, "is not a list of tokens"),
    ],
)
def test_added_tokens_that_do_not_fit(added: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read(model(), tokenizer_config={"added_tokens_decoder": added})


def test_fuzzing_any_bytes_are_read_or_refused() -> None:
    @settings(max_examples=200)
    @given(st.binary(max_size=200) | st.integers(0, 8000), st.binary(max_size=8))
    def check(start: bytes | int, middle: bytes) -> None:
        whole = model(PLAIN)
        data = start + middle if isinstance(start, bytes) else whole[:start] + middle + whole[start + len(middle) :]
        try:
            read(data).encode("the 世界")
        except InputError as error:
            assert "\n" not in str(error)

    for_some_time(check)
