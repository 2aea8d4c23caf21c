# python -m pytest tests/text/test_stored_vocabulary.py
"""Vocabularies from lists of tokens, as `.t` files hold them."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from dllama_py.errors import InputError
from dllama_py.text import known_vocabularies
from dllama_py.text.tokenizer import Tokenizer
from dllama_py.token_list import TokenList

BYTES = [bytes([byte]) for byte in range(256)]
GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "smollm2-135m-instruct.json").read_text("utf-8"))["cases"]


def tokenizer(tokens: Sequence[bytes], bos_id: int | None, *eos_ids: int, add_bos: bool = False) -> Tokenizer:
    scores = [-float(id) for id in range(len(tokens))]
    return Tokenizer.from_token_list(TokenList(tokens, scores, bos_id, eos_ids, add_bos))


def test_merged_by_score_across_words_as_distributed_llama_does() -> None:
    found = tokenizer([*BYTES, b"12", b"a 1", b" 1", b"<s>", b"</s>", b"<s>x"], 259, 260, add_bos=True)
    assert found.encode("a 12") == [259, 97, 32, 256]  # 12 has the lowest id
    assert found.encode("a 1", bos=False) == [257]  # over the space between two words
    assert found.encode("<s>x</s>", bos=False) == [259, 120, 260]  # of special tokens the lowest id, not the longest
    assert found.encode("<s>", special=False, bos=False) == [60, 115, 62]
    assert (found.bos_id, found.eos_ids, found.special_ids.eos_id) == (259, {260}, 260)
    assert found.special_texts() == {"<s>", "</s>", "<s>x"}
    assert found.decode(found.encode("né 12 😀", bos=False)) == "né 12 😀"


def test_spans_are_characters() -> None:
    found = tokenizer([*BYTES, "é".encode(), b"<s>"], 257)
    assert found.spans("né<s>a") == [(110, (0, 1)), (256, (1, 2)), (257, (2, 5)), (97, (5, 6))]
    assert found.spans("ü") == [(0xC3, (0, 1)), (0xBC, (0, 1))]


def test_special_tokens_at_the_front() -> None:
    """As SmolLM2 has them: the begin token says nothing about where text begins."""
    found = tokenizer([b"<end>", b"<begin>", b"a", b"b", b"ab"], 1, 0, add_bos=True)
    assert found.encode("ab<end>a") == [1, 4, 0, 2]
    assert found.special_texts() == {"<end>", "<begin>"}


def test_special_tokens_that_are_no_utf8_are_never_in_a_text() -> None:
    found = tokenizer([*BYTES, b"<s>", b"\xff\xfe"], 256)
    assert found.encode("\ufffd\ufffd") == [0xEF, 0xBF, 0xBD] * 2
    assert found.piece(257) == b"\xff\xfe" and found.special_texts() == {"<s>"}


def test_without_a_begin_token() -> None:
    found = tokenizer([b"a", b"b", b"ab", b"<end>"], None, 3, add_bos=True)
    assert found.encode("ab<end>") == [2, 3]
    assert not found.special_ids.add_bos


def test_of_equal_tokens_the_first() -> None:
    found = tokenizer([*BYTES, b"12", b"12", b"<s>"], 258)
    assert found.encode("12") == [256]


def test_end_tokens_among_the_ordinary_are_control_tokens() -> None:
    found = tokenizer([b"a", b"b", b"ab", b"<s>"], 3, 2)
    assert found.encode("ab") == [2] and found.encode("ab", special=False) == [0, 1]


def test_sentencepiece_is_recognised_by_its_byte_tokens() -> None:
    pieces = [b" h", b"i", b" hi", b" ", b"h", "é".encode()]
    found = tokenizer([b"<unk>", b"<s>", b"</s>", *BYTES, *pieces], 1, 2, add_bos=True)
    assert found.encode("hi") == [1, 261]
    assert found.encode("hi</s>") == [1, 261, 2]
    assert found.encode("hü") == [1, 259, 3 + 0xC3, 3 + 0xBC]
    assert found.drops_first_space and found.decode([261, 264]) == "hié"
    found = tokenizer([b"<unk>", b"<s>", b"</s>", *BYTES, *pieces, b"<end>"], 1, 265)
    assert found.special_texts() == {"<unk>", "<s>", "</s>", "<end>"}
    assert 265 not in found.encode("<end>", special=False) and found.encode("<end>") == [265]


def test_a_byte_without_a_token_is_told() -> None:
    found = tokenizer([b"a", b"\xc3\xa9", b"<s>"], 2)
    assert found.encode("aé") == [0, 1]
    for text, shown in (("ab", "'b' .bytes 62."), ("\xe8a", "bytes c3 a8"), ("b" + "a" * 99, "'baa' .bytes 62 61 61.")):
        with pytest.raises(InputError, match=f"no token for .*{shown}") as caught:
            found.encode(text)
        assert "\n" not in str(caught.value)


def test_known_vocabularies_split_text_first(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = [*BYTES, b"12", b"a 1", b" 1", b"23"]
    special = [b"<|endoftext|>", b"<think>", b"<|im_end|>"]
    monkeypatch.setattr(known_vocabularies, "_RULES", {known_vocabularies.fingerprint(tokens): "qwen2"})
    found = tokenizer([*tokens, *special], 260, 262)
    assert found.encode("a 123") == [97, 32, 49, 50, 51]
    assert found.encode("e\u0301") == [0xC3, 0xA9]
    assert found.encode("<|im_end|><think>", special=False)[-1] == 261
    assert found.special_texts() == {"<|endoftext|>", "<|im_end|>"}
    assert tokenizer([*tokens, *special], 259, 262).encode("a 12") == [97, 32, 256]  # another list, not known


def test_smollm2_is_known_by_its_tokens_alone(smollm2: Tokenizer) -> None:
    """Its control tokens stand at the front; here nothing but a list of tokens comes from its file."""
    stored = smollm2.token_list()
    found = Tokenizer.from_token_list(TokenList(stored.tokens, [0.0] * 49152, 1, (2, 0), False))
    assert found.special_texts() == smollm2.special_texts()
    assert found.encode("2024 years<|im_end|>") == [34, 32, 34, 36, 929, 2]
    assert not any(map(found.is_special, found.encode("<|im_end|><repo_name>", special=False)))
    texts = ["if x ** 2 == 31.4:\n\t\tпривет 日本語 😀 e\u0301", *(case["text"] for case in GOLDEN)]
    assert [found.encode(text) for text in texts] == [smollm2.encode(text) for text in texts]
    assert [found.encode(case["text"]) for case in GOLDEN] == [case["ids"] for case in GOLDEN]


def test_special_tokens_behind_the_ordinary_keep_their_order_whatever_their_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(known_vocabularies, "_RULES", {known_vocabularies.fingerprint(BYTES): "qwen2"})
    special = [b"<word%d>" % id if id % 2 else b"<|%d|>" % id for id in range(2000)]
    found = tokenizer([*BYTES, *special], 256, 256)
    assert found.encode("<|0|><word1><|1998|><word1999>") == [256, 257, 2254, 2255]
    assert found.encode("<|0|><word1999>", special=False)[-1] == 2255
    assert len(found.special_texts()) == 1000


def test_special_tokens_that_are_not_all_different_keep_their_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_vocabularies, "_RULES", {known_vocabularies.fingerprint(BYTES): "qwen2"})
    found = tokenizer([*BYTES, b"<|a|>", b"<|a|>", b"<|b|>"], 256, 258)
    assert found.encode("x<|a|><|b|>") == [120, 256, 258]
    assert found.piece(257) == b"<|a|>"


def test_lowest_rank_first_within_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = [*BYTES, b"bc", b"ab", b"abc", b"cd"]
    monkeypatch.setattr(known_vocabularies, "_RULES", {known_vocabularies.fingerprint(tokens): "llama-bpe"})
    found = tokenizer([*tokens, b"<|begin_of_text|>"], 260, 260, add_bos=True)
    assert found.encode("abcd") == [260, 258, 100]
    assert found.encode("abcd <|begin_of_text|>") == [260, 258, 100, 32, 260]


def test_lists_with_other_cuts_have_other_fingerprints() -> None:
    assert known_vocabularies.fingerprint([b"a", b"b"]) != known_vocabularies.fingerprint([b"ab"])
    expected = "5310a58788781ab25d5ad7c3f85035824b4eb7bdfa394e0ac2186271472b5492"  # SHA-256 of 1:a2:bc
    assert known_vocabularies.fingerprint([b"a", b"bc"]) == expected
