# python -m pytest tests/cli/test_tokenize.py
"""Mode tokenize: ids and pieces of raw text, from every place a tokenizer can be."""

import json
import struct
from pathlib import Path

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from dllama_py.cli import main
from dllama_py.cluster.registry import RegisteredModel, remember
from tests import checkpoints
from tests.checkpoints import tiny_gguf, tiny_model_file
from tests.cli.isolated import run_isolated

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "smollm2-135m-instruct.json").read_text())["cases"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tokenizer of three words and a begin token, as a Hugging Face folder has it."""
    backend = Backend(WordLevel({"<s>": 0, "one": 1, "two": 2, "?": 3}, unk_token="?"))
    backend.pre_tokenizer = Whitespace()
    backend.add_special_tokens(["<s>"])
    place = tmp_path / "folder"
    place.mkdir()
    backend.save(str(place / "tokenizer.json"))
    (place / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "add_bos_token": True}))
    return place


def tokens(capsys, *arguments: object) -> dict:
    assert main(["tokenize", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("case", GOLDEN, ids=[f"{case['kind']}-{i}" for i, case in enumerate(GOLDEN)])
def test_ids_are_those_of_the_reference(smollm2_gguf, capsys, case):
    found = tokens(capsys, "--model", smollm2_gguf, "--prompt", case["text"])
    assert found["ids"] == case["ids"]
    assert "".join(found["pieces"]) == case["text"]


def test_special_tokens_and_halves_of_characters(smollm2_gguf, capsys):
    found = tokens(capsys, "--tokenizer", smollm2_gguf, "--prompt", "<|im_start|>Hi 😀")
    assert found["ids"] == [1, 26843, 40303, 218]
    assert found["pieces"] == ["<|im_start|>", "Hi", " \N{REPLACEMENT CHARACTER}", "\N{REPLACEMENT CHARACTER}"]


def test_a_folder_and_its_file_are_the_same_and_bos_goes_first(folder, capsys):
    for place in (folder, folder / "tokenizer.json"):
        found = tokens(capsys, "--tokenizer", place, "--prompt", "two one<s>")
        assert found == {"ids": [0, 2, 1, 0], "pieces": ["<s>", "two", "one", "<s>"]}


def test_sentencepiece_in_a_gguf_file(tmp_path, monkeypatch, capsys):
    def add_tokenizer(writer, vocab_size):
        pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁h", "i", "▁hi", "▁", "h"]
        types = [2, 3, 3, *[6] * 256, *[1] * 5, *[5] * (vocab_size - 264)]
        pieces += [f"[PAD{id}]" for id in range(264, vocab_size)]
        writer.add_tokenizer_model("llama")
        writer.add_token_list(pieces)
        writer.add_token_scores([0.0] * 259 + [-1.0, -2.0, -3.0, -4.0, -5.0] + [0.0] * (vocab_size - 264))
        writer.add_token_types(types)

    monkeypatch.setattr(checkpoints, "add_tokenizer", add_tokenizer)
    model = tiny_gguf(tmp_path / "a.gguf", vocab_size=272)
    found = tokens(capsys, "--model", model, "--prompt", "hi é</s>hi")
    assert found["ids"] == [1, 261, 262, 3 + 0xC3, 3 + 0xA9, 2, 261]
    assert found["pieces"][:3] == ["<s>", " hi", " "]


def test_text_from_a_file(folder, tmp_path, capsys):
    (tmp_path / "text.txt").write_bytes("one\r\ntwo é".encode())
    assert tokens(capsys, "--tokenizer", folder, "--file", tmp_path / "text.txt")["ids"] == [0, 1, 2, 3]


def test_the_tokenizer_goes_before_the_model(folder, tmp_path, capsys):
    model = tiny_model_file(tmp_path / "a.m")
    assert tokens(capsys, "--model", model, "--tokenizer", folder, "--prompt", "one")["ids"] == [0, 1]


def test_the_model_fetched_last_is_taken(smollm2_gguf, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("DLLAMA_HOME", str(tmp_path))
    remember(RegisteredModel("smollm2", "smollm2", smollm2_gguf, smollm2_gguf.parent, ()))
    assert tokens(capsys, "--prompt", "Hi")["ids"] == [26843]


def test_the_page_for_people(folder, capsys):
    assert main(["tokenize", "--tokenizer", str(folder), "--prompt", "one"]) == 0
    assert capsys.readouterr().out == "piece  id\n'<s>'   0\n'one'   1\n"


def test_an_empty_text(folder, capsys):
    assert tokens(capsys, "--tokenizer", folder, "--prompt", "") == {"ids": [0], "pieces": ["<s>"]}


def test_neither_mpi_nor_numba_is_needed(folder):
    done = run_isolated("tokenize", "--tokenizer", str(folder), "--prompt", "two", "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["ids"] == [0, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "one of the arguments --prompt --file is required"),
        (["--prompt", "a"], "no --model given and none fetched yet"),
        (
            ["--model", "MODEL", "--prompt", "a"],
            "a.m holds no tokenizer; give --tokenizer (a .t file, a tokenizer.json ",
        ),
        (["--tokenizer", "none", "--prompt", "a"], "none: there is no such tokenizer"),
        (
            ["--tokenizer", "CUT", "--prompt", "a"],
            "cut.t: 50000 tokens do not fit into the file's 24 bytes; it was cut",
        ),
        (["--tokenizer", "POINTER", "--prompt", "a"], "pointer.t: is a Git LFS pointer, not the file itself"),
        (["--tokenizer", "MODEL", "--prompt", "a"], "a.m: is no tokenizer; give a .t file, a tokenizer.json or"),
        (["--tokenizer", "FOLDER", "--file", "none"], "none: cannot be read: No such file or directory"),
        (["--tokenizer", "FOLDER", "--file", "/dev/zero"], "/dev/zero: has more than 256 MiB; give a part of it"),
        (["--tokenizer", "FOLDER", "--file", "MODEL"], "is no UTF-8; give a text file in UTF-8"),
        (["--tokenizer", "FOLDER", "--prompt", "a\udcff"], "character 1 of the text is U+DCFF, half of a pair or "),
    ],
)
def test_errors_are_one_line_and_exit_with_2(folder, tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.setenv("DLLAMA_HOME", str(tmp_path / "home"))
    cut, pointer = tmp_path / "cut.t", tmp_path / "pointer.t"
    cut.write_bytes(b"\x24\x71\x56\x00\x18\x00\x00\x00" + struct.pack("<4i", 0, 1, 1, 50000))
    pointer.write_bytes(b"version https://git-lfs.github.com/spec/v1")
    words = {"FOLDER": str(folder), "MODEL": str(tiny_model_file(tmp_path / "a.m"))}
    words |= {"CUT": str(cut), "POINTER": str(pointer)}
    assert main(["tokenize", *[words.get(word, word) for word in arguments]]) == 2
    error = capsys.readouterr().err
    assert message in error and error.startswith("error: ") and error.count("\n") == 1
