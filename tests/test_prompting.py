# python -m pytest tests/test_prompting.py
"""Which tokenizer belongs to a model, and that a model without one may do without."""

from pathlib import Path

import gguf
import pytest

from dllama_py.errors import InputError, UsageError
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.formats.tokenizer_file import tokenizer_file_bytes
from dllama_py.prompting import need_text, open_text, prompt_ids, text_from_path
from dllama_py.token_list import TokenList
from tests import checkpoints
from tests.checkpoints import own_folder, tiny_gguf, tiny_model_file
from tests.support.chats import byte_text


def test_models_without_a_tokenizer_have_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(writer: gguf.GGUFWriter, vocab_size: int) -> None:
        """A GGUF file of weights alone."""

    monkeypatch.setattr(checkpoints, "add_tokenizer", forget)
    for model in (own_folder(tmp_path / "folder"), tiny_model_file(tmp_path / "a.m"), tiny_gguf(tmp_path / "a.gguf")):
        assert open_text(open_checkpoint(model), None) is None


@pytest.mark.parametrize("name", ["dllama_tokenizer_tiny_q40.t", "dllama_tokenizer_tiny.t"])
def test_a_model_file_takes_the_tokenizer_beside_it(tmp_path: Path, name: str) -> None:
    tokens = TokenList([b"<s>", b"</s>", b"a"], [0.0, 0.0, 0.0], 0, (1,), True)
    (tmp_path / name).write_bytes(tokenizer_file_bytes(tokens))
    (tmp_path / "dllama_tokenizer_other.t").touch()
    text = open_text(open_checkpoint(tiny_model_file(tmp_path / "dllama_model_tiny_q40.m")), None)
    assert text is not None
    assert text.tokenizer.encode("aa") == [0, 2, 2]
    assert open_text(open_checkpoint(tiny_model_file(tmp_path / "tiny_q40.m")), None) is None


def test_a_text_prompt_needs_one() -> None:
    with pytest.raises(UsageError, match="a text prompt needs a tokenizer and the model has none; give --tokenizer"):
        need_text(None, "a text prompt")


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer.model"])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00", "is a Git LFS pointer"),
        (b"<!DOCTYPE html><title>Sign in</title>", "is a web page"),
        (b"", "the file is empty"),
        (b"PK\x03\x04", "is a zip archive"),
    ],
)
def test_what_is_no_tokenizer_is_named(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    for path in (tmp_path, tmp_path / name):
        with pytest.raises(InputError, match=f"^{tmp_path / name}: {words}"):
            text_from_path(path)


def test_options_of_a_program_reach_the_template() -> None:
    text = byte_text("{{ messages[0].content }}{% if enable_thinking is false %}!{% endif %}")
    messages = [{"role": "user", "content": "Hi"}]
    assert text.tokenizer.decode(prompt_ids(text, messages, {"enable_thinking": False})) == "Hi!"
    assert text.tokenizer.decode(prompt_ids(text, messages)) == "Hi"
    assert text.tokenizer.decode(text.chat_ids("Hi", options={"enable_thinking": False})) == "Hi!"
