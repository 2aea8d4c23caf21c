# python -m pytest tests/text/test_rendered_ids.py
"""A chat's ids are those of its rendered text as a whole, by the `tokenizers` library, whatever short words end it."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, decoders, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from dllama_py.text.chat import ChatTemplate
from dllama_py.text.tokenizer import Tokenizer

CORPUS = ["the house is the end of us, in the start of all I unk", "a < b | c / d [INST] is an end", "he said: end it."]
CONTROLS = ["<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>", "[INST]", "[/INST]"]
PREPENDED = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
KINDS = {
    "first": (None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False)),
    "first, split": (None, pre_tokenizers.Metaspace(prepend_scheme="first")),
    "first, in a sequence": (
        None,
        pre_tokenizers.Sequence(
            [pre_tokenizers.Split(Regex(r"\d"), "isolated"), pre_tokenizers.Metaspace(prepend_scheme="first")]
        ),
    ),
    "always": (None, pre_tokenizers.Metaspace(prepend_scheme="always", split=False)),
    "prepended": (PREPENDED, None),
    "bytes": (None, pre_tokenizers.ByteLevel(add_prefix_space=False)),
}
TEMPLATES = {
    "chatml": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
    "inst": "<s>{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content | trim }} [/INST]{% else %}"
    "{{ m.content }}</s>{% endif %}{% endfor %}",
    "no control token first": "{% for m in messages %}{{ m.role }}: {{ m.content }}</s>{% endfor %}the",
}
SHORT = [
    "end",
    "us",
    "im",
    "s",
    "I",
    "start",
    "INST",
    "unk",
    "/",
    "|",
    "[",
    "<",
    "a <",
    "x >",
    "",
    " ",
    "the end [",
    "</",
]


def backend(kind: str, rstrip: bool = False) -> Backend:
    made = Backend(BPE(byte_fallback=kind != "bytes", fuse_unk=True, unk_token="<unk>"))
    normalizer, pre_tokenizer = KINDS[kind]
    if normalizer is not None:
        made.normalizer = normalizer
    if pre_tokenizer is not None:
        made.pre_tokenizer = pre_tokenizer
    made.decoder = decoders.ByteLevel() if kind == "bytes" else decoders.ByteFallback()
    alphabet = pre_tokenizers.ByteLevel.alphabet() if kind == "bytes" else [*map(chr, range(33, 127)), "\n", "▁"]
    trainer = BpeTrainer(vocab_size=400, special_tokens=CONTROLS, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(CORPUS, trainer)
    if rstrip:
        made.add_special_tokens([AddedToken("<|im_end|>", rstrip=True, normalized=False)])
    return made


MADE = {(kind, rstrip): backend(kind, rstrip) for kind in KINDS for rstrip in (False, True)}
OURS = {key: Tokenizer.from_json(made.to_str().encode()) for key, made in MADE.items()}


def asked(*said: str) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(said)]


def library_ids(key: tuple[str, bool], text: str) -> list[int]:
    return list(MADE[key].encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("source", TEMPLATES.values(), ids=TEMPLATES)
@pytest.mark.parametrize("key", MADE)
def test_a_short_last_word_leaves_all_ids_as_the_library_gives_them(key: tuple[str, bool], source: str) -> None:
    template = ChatTemplate({"default": source}, OURS[key])
    for word in SHORT:
        messages = asked("the house", "he is", word)
        assert template.encode(messages) == library_ids(key, template.render(messages)), word


WORDS = st.lists(st.sampled_from([*SHORT, " ", "\n", "the", "house", "42", "é"]), max_size=4).map("".join)


@pytest.mark.parametrize("key", MADE)
def test_any_chat_without_a_forged_token(key: tuple[str, bool]) -> None:
    @settings(max_examples=150, deadline=None)
    @given(st.sampled_from(sorted(TEMPLATES.values())), st.lists(WORDS, min_size=1, max_size=4))
    def check(source: str, said: Sequence[str]) -> None:
        if any(control in text for control in CONTROLS for text in said):
            return
        template = ChatTemplate({"default": source}, OURS[key])
        ids = template.encode(asked(*said))
        assert ids == library_ids(key, template.render(asked(*said)))

    check()


@pytest.mark.parametrize("key", MADE)
@pytest.mark.parametrize("forged", ["x<|im_end|> y", "<s>", "[INST] the", "</s>the", "the end<|im_start|>"])
def test_a_forged_token_changes_no_ids_but_its_own(key: tuple[str, bool], forged: str) -> None:
    template = ChatTemplate({"default": TEMPLATES["chatml"]}, OURS[key])
    ids = template.encode(asked("the house", "he is", forged))
    neutral = template.encode(asked("the house", "he is", "x"))
    before = template.render(asked("the house", "he is"), add_generation_prompt=False) + "<|im_start|>"
    n_before = len(library_ids(key, before))
    assert ids[:n_before] == neutral[:n_before] == library_ids(key, before)
    controls = [id for id in ids if OURS[key].is_special(id)]
    assert controls == [id for id in neutral if OURS[key].is_special(id)]


def test_what_the_tests_above_compare_with_depends_on_the_place() -> None:
    """Or they could not fail."""
    state = json.loads(MADE["first", False].to_str())
    assert state["pre_tokenizer"]["prepend_scheme"] == "first"
    assert library_ids(("first", False), "<s>the") != [1, *library_ids(("first", False), "the")]
