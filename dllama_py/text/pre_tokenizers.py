"""The rule by which a byte-level vocabulary splits text before merging, by the name GGUF files give it.

GGUF stores a name, not the rule; the rules are those of the models' own tokenizer.json files. A wrong rule gives
other ids for numbers, spaces and scripts without any error, so an unknown name is refused. Names that llama.cpp knows
for models of other architectures only are not here, nor `default`, which it gives to vocabularies it does not know.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tokenizers import Regex, normalizers
from tokenizers.normalizers import Normalizer
from tokenizers.pre_tokenizers import ByteLevel, PreTokenizer, Sequence, Split

from dllama_py.errors import InputError
from dllama_py.text.cased_letters import CASED

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_TAIL = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_SPACES}"
_SLASH_TAIL = rf" ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACES}"
_UPPER = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_TAIL}"
_QWEN2 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}|{_TAIL}"
_QWEN35 = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACES}"
)
_TEKKEN = rf"{_UPPER}*{_LOWER}+|{_UPPER}+{_LOWER}*|\p{{N}}|{_SLASH_TAIL}"
_GPT4O = rf"{_UPPER}*{_LOWER}+{_CONTRACTION}?|{_UPPER}+{_LOWER}*{_CONTRACTION}?|\p{{N}}{{1,3}}|{_SLASH_TAIL}"
_SEED = rf"{_CONTRACTION}|{_WORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACES}"
_MINICPM5 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}+|{_TAIL}"
_ASCII_MARK = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"
_DEEPSEEK3 = (
    rf"{_ASCII_MARK}[A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACES}"
)
_NORDIC = r" ?[^(\s|.,!?…。，、।۔،)]+"
_CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_HAN_KANA = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"
_WIDE_MARKS = "!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002"


@dataclass(frozen=True, slots=True)
class SplitRule:
    """Each pattern cuts the pieces that the one before has left, around its matches."""

    patterns: tuple[str, ...]
    compose: bool = False  # NFC before splitting
    ignore_merges: bool = False  # for a word that is itself a token
    add_bos: bool = False  # unless the file says otherwise

    def pre_tokenizer(self) -> PreTokenizer:
        splits = [Split(Regex(pattern), behavior="isolated") for pattern in self.patterns]
        return Sequence([*splits, ByteLevel(add_prefix_space=False, use_regex=False)])

    def normalizer(self) -> Normalizer | None:
        return normalizers.NFC() if self.compose else None


def _named(names: str, rule: SplitRule) -> Iterable[tuple[str, SplitRule]]:
    return [(name, rule) for name in names.split()]


_LLAMA3_RULE = SplitRule((_LLAMA3,), ignore_merges=True, add_bos=True)

SPLIT_RULES: dict[str, SplitRule] = dict(
    [
        *_named("llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2", _LLAMA3_RULE),
        *_named("dbrx smaug-bpe glm4 chatglm-bpe", SplitRule((_LLAMA3,))),
        *_named("qwen2", SplitRule((_QWEN2,), compose=True)),
        *_named("deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2", SplitRule((_QWEN2,))),
        *_named("qwen35", SplitRule((_QWEN35,), compose=True)),
        *_named("tekken", SplitRule((_TEKKEN,), ignore_merges=True, add_bos=True)),
        *_named("gpt-4o llama4 kanana2 talkie", SplitRule((_GPT4O,))),
        *_named("seed-coder", SplitRule((_SEED,))),
        *_named("minicpm5", SplitRule((r"\p{N}{1,3}", _MINICPM5), ignore_merges=True)),
        *_named("deepseek-v3 hunyuan-dense joyai-llm", SplitRule((r"\p{N}{1,3}", _HAN_KANA, _DEEPSEEK3))),
        *_named("deepseek-coder", SplitRule(("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _CJK, r"\p{N}"))),
        *_named(
            "deepseek-llm",
            SplitRule(("[\r\n]", rf"\s?[{CASED}]+", rf"\s?[{_WIDE_MARKS}]+", r"\s+$", _CJK, r"\p{N}+")),
        ),
        *_named("poro-chat bloom gpt3-finnish", SplitRule((_NORDIC,))),
        *_named("viking", SplitRule((_NORDIC, r"\p{N}"))),
        *_named(
            "gpt-2 phi-2 gigachat a.x-4.0 mellum mpt olmo jais trillion granite-docling exaone4", SplitRule((_GPT2,))
        ),
        *_named("smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", SplitRule((r"\p{N}", _GPT2))),
    ]
)


def split_rule(name: object) -> SplitRule:
    """The rule of that name; InputError with the known names for any other, also for none and for `default`."""
    rule = SPLIT_RULES.get(name) if isinstance(name, str) else None
    if rule is None:
        found = "no pre-tokenizer name" if name is None else f"the pre-tokenizer {name!r}"
        raise InputError(
            f"{found} in tokenizer.ggml.pre; known are {', '.join(sorted(SPLIT_RULES))}; "
            "use the model's Hugging Face folder, or convert it to GGUF again"
        )
    return rule
