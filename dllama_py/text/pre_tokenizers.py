"""The rule by which a byte-level vocabulary splits text before merging, by the name GGUF files give it.

GGUF stores a name, not the rule; the rules are those of the models' own tokenizer.json files. A wrong rule gives
other ids for numbers, spaces and scripts without any error, so an unknown name is refused.
"""

from dataclasses import dataclass

from tokenizers import Regex, normalizers
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import ByteLevel, Digits, PreTokenizer, Sequence, Split

from dllama_py.errors import InputError

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_TAIL = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_LLAMA3 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_TAIL}"
_QWEN2 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}|{_TAIL}"
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*"
    r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, slots=True)
class SplitRule:
    """pattern None is GPT-2's own pattern. Merges are ignored for a word that is itself a token, where said."""

    pattern: str | None = None
    single_digits: bool = False
    compose: bool = False  # NFC before splitting
    ignore_merges: bool = False
    add_bos: bool = False  # unless the file says otherwise

    def pre_tokenizer(self) -> PreTokenizer:
        if self.pattern is not None:
            split = Split(Regex(self.pattern), behavior="isolated")
            return Sequence([split, ByteLevel(add_prefix_space=False, use_regex=False)])
        gpt2 = ByteLevel(add_prefix_space=False)
        return Sequence([Digits(individual_digits=True), gpt2]) if self.single_digits else gpt2

    def normalizer(self) -> Normalizer | None:
        return normalizers.NFC() if self.compose else None


_GPT2_RULE = SplitRule()
_DIGITS_RULE = SplitRule(single_digits=True)
_LLAMA3_RULE = SplitRule(_LLAMA3, ignore_merges=True, add_bos=True)
_QWEN2_RULE = SplitRule(_QWEN2, compose=True)

SPLIT_RULES = {
    "gpt-2": _GPT2_RULE,
    "smollm": _DIGITS_RULE,
    "starcoder": _DIGITS_RULE,
    "refact": _DIGITS_RULE,
    "llama-bpe": _LLAMA3_RULE,
    "llama3": _LLAMA3_RULE,
    "llama-v3": _LLAMA3_RULE,
    "qwen2": _QWEN2_RULE,
    "deepseek-r1-qwen": SplitRule(_QWEN2),
    "tekken": SplitRule(_TEKKEN, ignore_merges=True, add_bos=True),
}


def split_rule(name: str | None) -> SplitRule:
    """The rule of that name; InputError with the known names for any other, also for none and for `default`."""
    if name not in SPLIT_RULES:
        found = "no pre-tokenizer name" if name is None else f"the pre-tokenizer {name!r}"
        raise InputError(
            f"{found} in tokenizer.ggml.pre; known are {', '.join(sorted(SPLIT_RULES))}; "
            "use the model's Hugging Face folder, or convert it to GGUF again"
        )
    return SPLIT_RULES[name]
