"""Which tokens only a template may write: by their look, or because a model's files name them. Knows no encoding.

Files often mark such tokens as the user's or as ordinary ones; then anybody could end a turn by writing one.
"""

import re
from collections.abc import Container

# Tokens that end a turn or a text wherever they are control tokens of a vocabulary; GGUF files seldom list them all.
_END_TEXTS = (
    "<|endoftext|>",
    "<|end_of_text|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<end_of_turn>",
    "<｜end▁of▁sentence｜>",
    "<|return|>",
    "<|call|>",
)
_HARMONY = ("<|return|>", "<|call|>")  # gpt-oss: <|end|> ends one of several messages of an answer

_BARS = r"<[|｜].*>|<.*[|｜]>"
_TURNS = (
    r"</?(?:start|begin|end)_of_\w+>|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]|<</?SYS>>"
)
_NAMES = "s|bos|eos|eot|eom|eod|pad|unk|mask|cls|sep|user|assistant|system|human|bot|model"
_LOOK = re.compile(
    rf"{_BARS}|{_TURNS}|</?(?:{_NAMES}|{_NAMES.upper()})>|\[/?[A-Z][A-Z_]*\]"
    r"|<(?:unused|extra_id_|SPECIAL_|reserved_)\d+>|<fim_\w+>",
    re.DOTALL,
)
_ORDINARY_LOOK = re.compile(rf"<[|｜]\S*[|｜]>|{_TURNS}")


def end_texts(control: Container[str]) -> list[str]:
    """Names of end tokens among a vocabulary's control tokens."""
    is_harmony = all(text in control for text in _HARMONY)
    return [text for text in _END_TEXTS if text in control and not (is_harmony and text == "<|end|>")]


def has_control_look(text: str) -> bool:
    """Whether a token outside the ordinary vocabulary is spelled as control tokens are. `<think>` and `<tool_call>`
    are not: a model writes them, and conversations hold them.
    """
    return _LOOK.fullmatch(text) is not None


def is_mislabelled(text: str) -> bool:
    """Whether a token that a file calls ordinary can be none: no merging of words would make it. `</s>` may be one, in
    a vocabulary that learnt from web pages.
    """
    return text[:1] in ("<", "[") and _ORDINARY_LOOK.fullmatch(text) is not None


def is_word(text: str) -> bool:
    """Whether a token stays readable in a user's text though a file names it as begin or end token: a line end, a mark
    or a word, which some models stop at.
    """
    letters = text.strip("\u2581 \t\r\n")
    return len(letters) <= 2 or letters.isalnum()
