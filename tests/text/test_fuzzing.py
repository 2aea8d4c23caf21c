# python -m pytest tests/text/test_fuzzing.py
"""Random damage to tokenizer.json, GGUF metadata and settings, and random templates: an answer, or one line."""

import copy
import json
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dllama_py.errors import InputError
from dllama_py.text.chat import ChatTemplate
from dllama_py.text.tokenizer import Tokenizer
from tests.fuzzing import for_some_time

QUICK = settings(max_examples=150)

scalars = (
    st.none()
    | st.booleans()
    | st.sampled_from([-1, 0, 1, 300, 2**31, 2**63, -(2**70), 1e300, float("inf")])
    | st.text(max_size=8)
    | st.sampled_from(["a b", "Ġ", "<0xZZ>", "\ud800", "BPE", "Regex", "(", "ByteLevel", "<|im_end|>"])
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
places = st.lists(st.integers(0, 10**6), min_size=1, max_size=6)


def spoiled(whole: Any, place: list[int], value: Any, drop: bool) -> Any:
    """A copy in which one node, found by going down along `place`, is another or gone."""
    whole = copy.deepcopy(whole)
    node = whole
    for turn, number in enumerate(place):
        keys = list(node) if isinstance(node, dict) else range(len(node))
        key = keys[number % len(keys)]
        if turn == len(place) - 1 or not isinstance(node[key], dict | list) or not node[key]:
            if drop:
                del node[key]
            else:
                node[key] = value
            return whole
        node = node[key]
    return whole


def told(attempt: Callable[[], Any]) -> None:
    """Nothing but an InputError of one line may come of it."""
    try:
        attempt()
    except InputError as error:
        assert "\n" not in str(error) and len(str(error)) > 10


def use(tokenizer: Tokenizer) -> None:
    for text in ("He 12 😀", "<|im_end|>", ""):
        ids = tokenizer.encode(text)
        tokenizer.encode(text, special=False)
        tokenizer.decode([*ids, 5, 10**9])
    tokenizer.token_list()


def test_tokenizer_json(word_json: bytes) -> None:
    whole = json.loads(word_json)

    @QUICK
    @given(places, values, st.booleans())
    def check(place: list[int], value: Any, drop: bool) -> None:
        data = json.dumps(spoiled(whole, place, value, drop)).encode()
        told(lambda: use(Tokenizer.from_json(data)))

    for_some_time(check)


def test_settings(word_json: bytes) -> None:
    names = st.sampled_from(["bos_token", "eos_token", "bos_token_id", "eos_token_id", "add_bos_token"])
    entries = st.dictionaries(names, values, max_size=3)

    @QUICK
    @given(entries, entries, entries)
    def check(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> None:
        told(lambda: use(Tokenizer.from_json(word_json, tokenizer_config=a, config=b, generation_config=c)))

    for_some_time(check)


def test_gguf_metadata(byte_metadata: dict[str, Any]) -> None:
    spm = byte_metadata | {"tokenizer.ggml.model": "llama", "tokenizer.ggml.scores": [0.0] * 267}

    @QUICK
    @given(st.sampled_from([byte_metadata, spm]), places, values, st.booleans())
    def check(whole: dict[str, Any], place: list[int], value: Any, drop: bool) -> None:
        told(lambda: use(Tokenizer.from_gguf(spoiled(whole, place, value, drop))))

    for_some_time(check)


def test_templates(tiny: Tokenizer) -> None:
    parts = st.sampled_from(
        """{{ }} {% %} {%- -%} for if endif endfor set macro endmacro call x in messages loop.index range(9)
        range(10**9) m['content'] message.role | tojson trim join(',') default('') raise_exception('no') [1:] ['a'] () .
        ~ + * ** 99 'a' "b" is defined not == namespace(a=1) ns.a = strftime_now('%Y') <|im_end|> {# #} {{ x * 10**8 }}
        cycler lipsum ''.__class__ __mro__ include import extends 'a.txt' block endblock filter upper
        set endset""".split()
    )

    @QUICK
    @given(st.lists(parts, max_size=12), st.text(max_size=20))
    def check(pieces: list[str], said: str) -> None:
        template = ChatTemplate({"default": " ".join(pieces)}, tiny)
        told(lambda: template.encode([{"role": "user", "content": said}]))

    for_some_time(check)
