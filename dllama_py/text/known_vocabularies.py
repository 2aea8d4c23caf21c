"""Vocabularies of which a list of tokens is enough: recognised by a hash, the rest is known here.

A `.t` file stores neither the rule that splits text nor the merges. In these vocabularies a token's id is its rank, so
the merges follow from the tokens: two neighbours merge if they spell a token, the lowest id first.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence

from dllama_py.text.pre_tokenizers import SplitRule, split_rule

# Hash of the ordinary tokens, those on the other side of the begin token, which all models of a family share.
_QWEN = "936eb2d46a8f8f8d2860265a5c4346092caa9c5198d4d8f44cf99a86775fa555"  # 2, 2.5 and 3: 151643 tokens
_LLAMA3 = "350d88675e8fcd827021491c120e78949746440e80215af9291ced959938f504"  # 3 to 3.3, and their kin: 128000 tokens
_SMOLLM2 = "b2378e696573d8f4e87d4358bf438b9265262e8514a6b3911a5ca0724dec1e1c"  # 49135 tokens, 17 control tokens first
_RULES = {_QWEN: "qwen2", _LLAMA3: "llama-bpe", _SMOLLM2: "smollm"}


def fingerprint(tokens: Sequence[bytes]) -> str:
    """SHA-256 of the tokens, each after its length, so that no two lists have the same bytes."""
    return hashlib.sha256(b"".join(b"%d:%b" % (len(token), token) for token in tokens)).hexdigest()


def known_rule(ordinary: Sequence[bytes]) -> SplitRule | None:
    """The rule that splits text for these ordinary tokens, None where they are not known."""
    name = _RULES.get(fingerprint(ordinary))
    return None if name is None else split_rule(name)


def ranked_merges(vocab: Mapping[str, int]) -> Iterator[tuple[str, str]]:
    """All pairs of tokens that spell a token; in the order of vocab, which is that of the ids."""
    for token in vocab:
        for cut in range(1, len(token)):
            left, right = token[:cut], token[cut:]
            if left in vocab and right in vocab:
                yield left, right
