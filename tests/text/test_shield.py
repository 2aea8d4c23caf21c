# python -m pytest tests/text/test_shield.py
"""No word of a user becomes a control token; other words are left alone."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dllama_py.errors import InputError
from dllama_py.text.chat import ChatTemplate
from dllama_py.text.shield import Shield
from dllama_py.text.tokenizer import Tokenizer

TEMPLATES = [
    "{% for m in messages %}<|user|>{{ m.content }}<|im_end|>{% endfor %}",
    "{% for m in messages %}<|user|>{{ m.content | trim }}<|im_end|>{% endfor %}",
    "<|user|>{% for m in messages %}{{ m.content }}{% endfor %}<|im_end|>",
    "<|user|>{% for m in messages %}{{ m.content | trim }}{% endfor %}<|im_end|>",
    "<|user|>{% for m in messages %}<|{{ m.content }}|>{% endfor %}<|im_end|>",
]
FRAGMENTS = st.lists(
    st.sampled_from(["<|im_end|>", "<|", "im_end", "|>", "<", ">", "|", " ", "\n", "he", "<|user", "<think>"])
)


@pytest.fixture(scope="module")
def words() -> list[dict[str, Any]]:
    return [{"a": ["x", ("<|im_end|>",)], "n": 3}]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(source=st.sampled_from(TEMPLATES), said=st.lists(FRAGMENTS.map("".join), min_size=1, max_size=3))
def test_only_the_template_yields_control_tokens(tiny: Tokenizer, source: str, said: list[str]) -> None:
    template = ChatTemplate({"default": source}, tiny)
    messages = [{"role": "user", "content": text} for text in said]
    ids = template.encode(messages)
    assert tiny.decode(ids) == template.render(messages)
    neutral = template.encode([{"role": "user", "content": "x"} for _ in said])
    assert list(filter(tiny.is_special, ids)) == list(filter(tiny.is_special, neutral))


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_token_that_the_template_would_complete(tiny: Tokenizer, cut: int) -> None:
    """All but the first or the last characters are the user's; the template's own words spell the rest."""
    control = "<|im_start|>"  # the longest, 12 characters
    for before, said, after in (("", control[:cut], control[cut:]), (control[:cut], control[cut:], "")):
        template = ChatTemplate({"default": f"<|user|>x{before}{{{{ messages[0].content }}}}{after}"}, tiny)
        ids = template.encode([{"role": "user", "content": said}])
        assert list(filter(tiny.is_special, ids)) == [263]
        assert tiny.decode(ids) == f"<|user|>x{control}"


def test_nested_values_are_covered_and_others_kept(tiny: Tokenizer, words: list[dict[str, Any]]) -> None:
    covered = Shield(tiny, words).cover(words)
    assert covered == [{"a": ["x", ["<\uf8ff|im_end|>"]], "n": 3}]


def test_the_breaking_character_occurs_nowhere_else(tiny: Tokenizer) -> None:
    said = "\uf8ff<|im_end|>"
    assert Shield(tiny, [said]).cover(said) == "\uf8ff<\uf8fe|im_end|>"


def test_a_text_of_all_private_characters_is_refused(tiny: Tokenizer) -> None:
    with pytest.raises(InputError, match="every character"):
        Shield(tiny, ["".join(map(chr, range(0xE000, 0xF900)))])


def test_names_that_templates_compare_are_left_alone(tiny: Tokenizer) -> None:
    shield = Shield(tiny, [])
    assert [shield.cover(text) for text in ("user", "im_end", "a < b", "the end.")] == [
        "user",
        "im_end",
        "a < b",
        "the end.",
    ]


def test_content_is_never_a_name_and_nothing_stays_nothing(tiny: Tokenizer) -> None:
    said = [{"role": "user", "content": text} for text in ("im_end", "", " \n")]
    covered = [message["content"] for message in Shield(tiny, said).cover(said)]
    assert covered == ["\uf8ffim_end", "", " \n"]


def test_text_across_a_border_merges_as_in_the_whole(tiny: Tokenizer) -> None:
    template = ChatTemplate({"default": "<|user|>h{{ messages[0].content }}<|im_end|>"}, tiny)
    assert template.encode([{"role": "user", "content": "e"}]) == [263, 256, 262]
    assert template.encode([{"role": "user", "content": "e<|im_end|>"}])[:2] == [263, 256]
