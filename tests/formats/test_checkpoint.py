# python -m pytest tests/formats/test_checkpoint.py
"""The door: what a file is follows from its content, and what is no model is said by name."""

import os

import pytest

from dllama_py.errors import InputError, UsageError
from dllama_py.formats.checkpoint import Embedding, open_checkpoint
from tests.checkpoints import tiny_folder, tiny_gguf, tiny_model_file

STRANGERS = {
    "an empty file": (b"", "the file is empty"),
    "a pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:", "is a Git LFS pointer"),
    "a page": (b"<!DOCTYPE html><html>", "is a web page"),
    "another page": (b"\n <html lang=en>", "is a web page"),
    "an old model": (b"\x00\xcd\xab\x00" + bytes(64), "old model format that is not supported"),
    "an older model": (b"\x01\xcd\xab\x00" + bytes(64), "old model format that is not supported"),
    "a big-endian model": (b"\x0a\x00\xab\xcd" + bytes(64), "is a big-endian model file"),
    "a tokenizer": (b"\x24\x71\x56\x00" + bytes(64), "is a tokenizer file"),
    "a zip archive": (b"PK\x03\x04" + bytes(64), "is a zip archive"),
    "a shard": (b'\x02\0\0\0\0\0\0\0{}' + bytes(64), "give the folder that holds it"),
    "noise": (b"\xde\xad\xbe\xef" * 9, "starts with the bytes de ad be ef, which is no known model format"),
    "one byte": (b"G", "starts with the bytes 47"),
}  # fmt: skip


@pytest.mark.parametrize("case", STRANGERS)
def test_what_is_no_model_is_said_by_name(tmp_path, case):
    data, message = STRANGERS[case]
    (tmp_path / "model.gguf").write_bytes(data)
    with pytest.raises(InputError, match=message) as caught:
        open_checkpoint(tmp_path / "model.gguf")
    assert "\n" not in str(caught.value)


def test_names_do_not_matter(tmp_path):
    assert open_checkpoint(tiny_gguf(tmp_path / "model.m")).metadata["general.architecture"] == "llama"
    assert open_checkpoint(tiny_model_file(tmp_path / "model.gguf")).config.width == 128


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match="there is no such file or folder"):
        open_checkpoint(tmp_path / "nowhere")


@pytest.mark.timeout(60)
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="there is no such file or folder"):
        open_checkpoint(tmp_path / "pipe")


def test_releasing_pages_leaves_everything_readable(tmp_path_factory):
    checkpoint = open_checkpoint(tiny_folder(tmp_path_factory, "tiny-llama"))
    before = Embedding(checkpoint).rows(range(320))
    checkpoint.release()
    assert (Embedding(checkpoint).rows(range(320)) == before).all()
    assert Embedding(checkpoint).rows([]).shape == (0, 128)


@pytest.mark.parametrize("token", [-1, 320])
def test_a_token_outside_the_vocabulary(tmp_path_factory, token):
    checkpoint = open_checkpoint(tiny_folder(tmp_path_factory, "tiny-llama"))
    with pytest.raises(UsageError, match=f"token {token} is not in the vocabulary of 320"):
        Embedding(checkpoint).rows([5, token])
