# python -m pytest tests/text/test_pre_tokenizers.py
"""Where each splitting rule cuts, for the names that GGUF files give them."""

import pytest

from dllama_py.errors import InputError
from dllama_py.text.pieces import byte_level_piece
from dllama_py.text.pre_tokenizers import SPLIT_RULES, split_rule

TEXT = "I'LL say  12345, dasÜber 世界!\n\n x"


def cut(name: str, text: str = TEXT) -> str:
    """The pieces with bars between them."""
    return "|".join(byte_level_piece(piece).decode() for piece, _ in rule_pieces(name, text))


def rule_pieces(name: str, text: str) -> list[tuple[str, tuple[int, int]]]:
    return split_rule(name).pre_tokenizer().pre_tokenize_str(text)


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("gpt-2 mpt olmo jais", "I|'|LL| say| | 12345|,| dasÜber| 世界|!|\n\n| x"),
        ("smollm starcoder command-r", "I|'|LL| say|  |1|2|3|4|5|,| dasÜber| 世界|!|\n\n| x"),
        ("llama-bpe falcon3 smaug-bpe glm4", "I|'LL| say| | |123|45|,| dasÜber| 世界|!\n\n| x"),
        ("qwen2 deepseek-r1-qwen megrez", "I|'LL| say| | |1|2|3|4|5|,| dasÜber| 世界|!\n\n| x"),
        ("tekken", "I|'LL| say| | |1|2|3|4|5|,| das|Über| 世界|!\n\n| x"),
        ("gpt-4o llama4", "I'LL| say| | |123|45|,| das|Über| 世界|!\n\n| x"),
        ("seed-coder", "I|'LL| say| | |1|2|3|4|5|,| dasÜber| 世界|!|\n\n| x"),
        ("deepseek-v3", "I|'LL| say|  |123|45|,| dasÜber| |世界|!\n\n| x"),
        ("deepseek-coder", "I|'|LL| say|  |1|2|3|4|5|,| dasÜber| |世界|!|\n|\n| x"),
        ("viking", "I'LL| say| | |1|2|3|4|5|,| dasÜber| 世界|!\n\n| x"),
    ],
)
def test_cuts(names: str, expected: str) -> None:
    assert {name: cut(name) for name in names.split()} == dict.fromkeys(names.split(), expected)


def test_every_rule_keeps_the_text() -> None:
    for name in SPLIT_RULES:
        assert cut(name).replace("|", "") == TEXT
        assert cut(name, "") == ""


def test_a_rule_that_is_not_known() -> None:
    for name, found in ((None, "no pre-tokenizer name"), ("default", "'default'"), (7, "7"), (["qwen2"], "'qwen2'")):
        with pytest.raises(InputError, match=f"{found}.* in tokenizer.ggml.pre; known are a.x-4.0, bloom, ") as caught:
            split_rule(name)
        assert "\n" not in str(caught.value)
