# python -m pytest tests/text/test_gguf_special_ids.py
"""Begin and end tokens of GGUF files: none by any name of none, ids of other files, types of any integers."""

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from dllama_py.errors import InputError
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.formats.gguf import open_metadata
from dllama_py.prompting import end_ids
from dllama_py.text.tokenizer import Tokenizer
from tests.checkpoints import tiny_gguf
from tests.text.test_sentencepiece import PIECES
from tests.text.test_sentencepiece import gguf as pieces

KEY = "tokenizer.ggml."


@pytest.mark.parametrize("none", [-1, 4294967295])
def test_no_such_token(byte_metadata: dict[str, Any], none: int) -> None:
    found = Tokenizer.from_gguf(byte_metadata | {f"{KEY}bos_token_id": none, f"{KEY}add_bos_token": True})
    assert (found.bos_id, found.eos_ids, found.encode("he")) == (None, {262}, [256])
    found = Tokenizer.from_gguf(byte_metadata | {f"{KEY}eos_token_id": none, f"{KEY}eot_token_id": none})
    assert (found.special_ids.eos_id, found.eos_ids) == (None, {262})  # by its name
    found = Tokenizer.from_gguf(pieces(bos_token_id=none, eos_token_id=none))
    assert (found.bos_id, found.special_ids.eos_id, found.eos_ids) == (None, None, frozenset())
    assert found.notes == ("nothing names an end token of the model: an answer ends at its limit alone",)


def test_absent_keys_of_a_vocabulary_that_is_too_small_for_the_defaults() -> None:
    few = {
        f"{KEY}{name}": values[:2] for name, values in zip(("tokens", "scores", "token_type"), _columns(), strict=True)
    }
    found = Tokenizer.from_gguf({f"{KEY}model": "llama", **few})
    assert (found.bos_id, found.special_ids.eos_id) == (1, None)


def _columns() -> list[list[Any]]:
    return [list(column) for column in zip(*PIECES, strict=True)]


@pytest.mark.parametrize(
    ("name", "value"),
    [("bos_token_id", 4000), ("eos_token_id", -2), ("eot_token_id", 280), ("eos_token_ids", [262, 99999])],
)
def test_an_id_without_a_token_names_its_key_and_what_to_do(
    byte_metadata: dict[str, Any], name: str, value: Any
) -> None:
    wrong = value[-1] if isinstance(value, list) else value
    with pytest.raises(InputError) as caught:
        Tokenizer.from_gguf(byte_metadata | {KEY + name: value})
    assert str(caught.value).startswith(
        f"the GGUF file's tokenizer.ggml.{name} is {wrong}, its tokenizer has ids 0 to 264; convert the model again, "
        "or correct that key"
    )


@pytest.mark.parametrize(("name", "value"), [("eos_token_ids", ["a"]), ("eos_token_ids", 2.5), ("eos_token_id", True)])
def test_what_is_no_id(byte_metadata: dict[str, Any], name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{name} is .*expected"):
        Tokenizer.from_gguf(byte_metadata | {KEY + name: value})


@pytest.mark.parametrize("kind", [np.uint32, np.int32, np.uint8, np.int64])
def test_token_types_may_be_any_integers(tmp_path: Path, byte_metadata: dict[str, Any], kind: Any) -> None:
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    for key, value in byte_metadata.items():
        if key == f"{KEY}token_type":
            _add_array(writer, key, np.array(value, kind))
        else:
            writer.add_key_value(key, value, gguf.GGUFValueType.get_type(value))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    found = Tokenizer.from_gguf(open_metadata(tmp_path / "a.gguf"))
    assert found.encode("he<|im_end|>") == [256, 262] and found.is_special(262) and found.vocab_size == 265


def _add_array(writer: gguf.GGUFWriter, key: str, values: np.ndarray[Any, Any]) -> None:
    kinds = {4: gguf.GGUFValueType.INT32, 1: gguf.GGUFValueType.UINT8, 8: gguf.GGUFValueType.INT64}
    kind = gguf.GGUFValueType.UINT32 if values.dtype == np.uint32 else kinds[values.itemsize]
    writer.add_key_value(key, values.tolist(), gguf.GGUFValueType.ARRAY, kind)


def test_settings_of_a_folder_may_say_none(word_json: bytes) -> None:
    found = Tokenizer.from_json(word_json, generation_config={"eos_token_id": [1, -1]}, config={"bos_token_id": -1})
    assert (found.eos_ids, found.bos_id) == ({1}, None)


def test_without_text_the_ends_are_those_that_the_file_names(tmp_path: Path) -> None:
    assert end_ids(open_checkpoint(tiny_gguf(tmp_path / "a.gguf")), None) == {257}
