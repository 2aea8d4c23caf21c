"""Tokenizers that the tests of this room share."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.text.pieces import BYTE_OF
from dllama_py.text.tokenizer import Tokenizer


@pytest.fixture(scope="session")
def smollm2_metadata(smollm2_gguf: Path) -> Mapping[str, Any]:
    return open_checkpoint(smollm2_gguf).metadata


@pytest.fixture(scope="session")
def smollm2(smollm2_metadata: Mapping[str, Any]) -> Tokenizer:
    return Tokenizer.from_gguf(smollm2_metadata)


@pytest.fixture
def byte_metadata() -> dict[str, Any]:
    """GGUF metadata of 256 byte tokens, "he", " he", four control tokens (260 to 263) and one of the user's (264)."""
    letters = sorted(BYTE_OF, key=BYTE_OF.__getitem__)
    special = ["<|begin|>", "<|im_start|>", "<|im_end|>", "<|user|>", "<think>"]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": [*letters, "he", "Ġhe", "12", "34", *special, "[PAD265]", "[PAD266]"],
        "tokenizer.ggml.token_type": [1] * 260 + [3, 3, 3, 3, 4, 5, 5],
        "tokenizer.ggml.merges": ["h e", "Ġ he", "1 2", "3 4"],
        "tokenizer.ggml.bos_token_id": 260,
        "tokenizer.ggml.eos_token_id": 262,
    }


@pytest.fixture
def tiny(byte_metadata: dict[str, Any]) -> Tokenizer:
    return Tokenizer.from_gguf(byte_metadata)


@pytest.fixture
def word_json() -> bytes:
    """A tokenizer.json with byte tokens and U+2581 for spaces, as Llama 2 has; <s> is 0, </s> 1, <0xF0> is 243."""
    letters = ["\u2581", "H", "i", "A", "\u2581H", "\u2581Hi"]
    texts = ["<s>", "</s>", "<end>", *(f"<0x{byte:02X}>" for byte in range(256)), *letters]
    special = [{"id": id, "content": texts[id], "special": True, "normalized": False} for id in range(3)]
    flags = {"single_word": False, "lstrip": False, "rstrip": False}
    steps: list[dict[str, Any]] = [
        {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ]
    prepend = {"type": "Prepend", "prepend": "\u2581"}
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    model = {
        "type": "BPE",
        "vocab": {text: id for id, text in enumerate(texts)},
        "merges": [["\u2581", "H"], ["\u2581H", "i"]],
        "byte_fallback": True,
        "fuse_unk": True,
        "unk_token": "<s>",
    }
    return json.dumps(
        {
            "version": "1.0",
            "added_tokens": [token | flags for token in special],
            "normalizer": {"type": "Sequence", "normalizers": [prepend, replace]},
            "decoder": {"type": "Sequence", "decoders": steps},
            "model": model,
        }
    ).encode()
