"""Ids of folders with a tokenizer.model, by transformers: python tests/peers/sentencepiece_folders.py OUT

Needs transformers 4.57 (later ones have no slow tokenizers and another default of `legacy`) and sentencepiece, not
dllama-py. Trains a small model on this project's pages and writes it and the ids into the folder OUT; those in
tests/golden/sentencepiece are of transformers 4.57.1 and sentencepiece 0.2.3. Where the fast tokenizer (the one that
AutoTokenizer gives) and the slow one differ both are written.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import sentencepiece  # type: ignore[import-not-found]
from transformers import AutoTokenizer  # type: ignore[import-not-found]

SPECIAL = {"special": True, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False}
WORD = SPECIAL | {"special": False}
N_PIECES = 600
ADDED = [
    {"content": "<|im_start|>", **SPECIAL},
    {"content": "<|im_end|>", **SPECIAL, "rstrip": True},
    {"content": "<|left|>", **SPECIAL, "lstrip": True},
    {"content": "<think>", **WORD},
    {"content": "<norm>", **WORD, "normalized": True},
    {"content": "<both>", **WORD, "lstrip": True, "rstrip": True},
    {"content": "<word>", **WORD, "single_word": True},
]
TEXTS = [
    *("hello world", " hello", "  hello", "hello ", "", "the\n", " ", "▁hello", "é世界 hello</s> 世", "a  b\n\n c"),
    *(
        "<s>hello",
        "<s> hello",
        "hello<s>hello",
        "hello <s> hello",
        "<s><s>the",
        "the</s><s>the",
        "<s>▁hello",
        "<|im_start|>",
    ),
    *("<|im_start|>user\nthe model<|im_end|>\n<|im_start|>assistant\n", "<|im_end|>  hello", "x <|im_end|> \n y"),
    *("hello  <|left|>  hello", " <|left|>x", "<|im_end|>\t\n<|left|>the", "<|im_end|> <both> <|left|>"),
    *("<think>hello</s>", "x<think> hello", "hello <both> hello", "<both>\n hello", "hello<norm>hello", "<norm> hello"),
    *("a <tool> b", "<tool>hello", "the<word>", "the <word> the", "<word>", "<|im_end|><word>the"),
]


def main(out: Path) -> None:
    pages = sorted(Path(__file__).parents[2].glob("docs/*.md"))
    sentencepiece.SentencePieceTrainer.train(
        input=[str(page) for page in pages],
        model_prefix=str(out / "tokenizer"),
        vocab_size=N_PIECES,
        model_type="bpe",
        byte_fallback=True,
        character_coverage=0.99,
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        user_defined_symbols=["<tool>"],
        num_threads=1,
    )
    added = {str(N_PIECES + place): token for place, token in enumerate(ADDED)}
    added |= {str(id): {"content": text, **SPECIAL} for id, text in enumerate(["<unk>", "<s>", "</s>"])}
    settings = [
        {key: value for key, value in (("legacy", legacy), ("add_prefix_space", space)) if value is not None}
        for legacy in (None, True, False)
        for space in (None, True, False)
    ]
    folders = [{"settings": each, **answers(out, {"added_tokens_decoder": added, **each})} for each in settings]
    lines = [json.dumps(folder, separators=(",", ":")) for folder in folders]
    head = json.dumps({"added": added, "texts": TEXTS}, ensure_ascii=False)
    (out / "ids.json").write_text(f'{head[:-1]}, "folders": [\n' + ",\n".join(lines) + "\n]}\n", "utf-8")


def answers(out: Path, config: dict[str, Any]) -> dict[str, Any]:
    """Ids of every text; of the slow tokenizer only where they differ, by the number of the text."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tokenizer.model").write_bytes((out / "tokenizer.model").read_bytes())
        (folder / "config.json").write_text('{"model_type": "llama"}')
        names = {"tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
        (folder / "tokenizer_config.json").write_text(json.dumps(names | config))
        fast, slow = (
            [tokenizer.encode(text, add_special_tokens=False) for text in TEXTS]
            for tokenizer in (AutoTokenizer.from_pretrained(folder, use_fast=is_fast) for is_fast in (True, False))
        )
    return {"fast": fast, "slow": {place: ids for place, ids in enumerate(slow) if ids != fast[place]}}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
