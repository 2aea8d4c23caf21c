# python -m pytest tests/cli/test_convert_tokenizer.py
"""`convert tokenizer` and what the written file does as --tokenizer."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers.decoders import ByteLevel
from tokenizers.models import BPE, WordLevel
from tokenizers.pre_tokenizers import ByteLevel as ByteLevelSplit

from converter.__main__ import main as converter
from dllama_py.cli import main
from dllama_py.formats.tokenizer_file import read_tokenizer_file
from tests.cli.isolated import run_isolated

TEMPLATE = "{% for m in messages %}<|user|>{{ m['content'] }}<|end|>{% endfor %}é"
FILES: dict[str, dict[str, Any]] = {
    "config.json": {"bos_token_id": 4, "eos_token_id": 6},
    "tokenizer_config.json": {"bos_token": None, "add_bos_token": False, "chat_template": TEMPLATE},
}


def folder(place: Path, **files: dict[str, Any] | None) -> Path:
    """Four ordinary tokens in GPT-2's alphabet (Ġ is a space) and three control tokens."""
    backend = Backend(BPE(vocab={"a": 0, "Ġ": 1, "Ġa": 2, "Ã": 3}, merges=[("Ġ", "a")]))
    backend.pre_tokenizer = ByteLevelSplit(add_prefix_space=False)
    backend.decoder = ByteLevel()
    backend.add_special_tokens(["<|begin|>", "<|user|>", "<|end|>"])
    place.mkdir()
    backend.save(str(place / "tokenizer.json"))
    for name, content in (FILES | {f"{name}.json": content for name, content in files.items()}).items():
        if content is not None:
            (place / name).write_text(json.dumps(content))
    return place


def converted(source: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["convert", "tokenizer", str(source), "x", "--output", str(out)]) == 0
    path = out / "dllama_tokenizer_x.t"
    assert capsys.readouterr().out == f"{path}\n"
    return path


def test_byte_for_byte(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = [(3, 4), (0, 1), (1, 7), (2, 9), (7, len(TEMPLATE.encode())), (9, 1), (10, 0)]
    tokens = [b"a", b" ", b" a", b"\xc3", b"<|begin|>", b"<|user|>", b"<|end|>"]
    expected = b"".join(
        [
            bytes.fromhex("24715600 40000000"),
            *(struct.pack("<ii", *pair) for pair in pairs),
            TEMPLATE.encode(),
            struct.pack("<i", 6),
            *(struct.pack("<fI", -float(id), len(token)) + token for id, token in enumerate(tokens)),
        ]
    )
    assert converted(folder(tmp_path / "source"), tmp_path, capsys).read_bytes() == expected


def test_both_doors_and_a_file_for_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = folder(tmp_path / "source"), tmp_path / "named.t"
    assert converter(["tokenizer", str(source), "x", "--output", str(out)]) == 0
    capsys.readouterr()
    assert out.read_bytes() == converted(source / "tokenizer.json", tmp_path, capsys).read_bytes()


@pytest.mark.parametrize(
    ("files", "bos_id", "eos_ids", "add_bos"),
    [
        ({"config": {"bos_token_id": 4, "eos_token_id": [6, 5]}}, 4, (6, 5), False),
        ({"config": {"bos_token_id": [4], "eos_token_id": 6}, "tokenizer_config": {}}, 4, (6,), True),
        ({"config": {"bos_token_id": 4}, "tokenizer_config": {"eos_token": "<|end|>"}}, 4, (6,), True),
        ({"generation_config": {"eos_token_id": [5, 6]}}, 4, (6, 5), False),
        ({"config": None, "tokenizer_config": {"bos_token": "<|begin|>", "add_bos_token": True}}, 4, (), True),
    ],
)
def test_begin_and_end_tokens(
    files: dict[str, Any], bos_id: int, eos_ids: tuple[int, ...], add_bos: bool, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    found = read_tokenizer_file(converted(folder(tmp_path / "source", **files), tmp_path, capsys))
    assert (found.bos_id, found.eos_ids, found.add_bos) == (bos_id, eos_ids, add_bos)


def test_from_gguf_and_back(smollm2_gguf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = converted(smollm2_gguf, tmp_path, capsys)
    found = read_tokenizer_file(path)
    assert (len(found.tokens), found.bos_id, found.eos_ids, found.add_bos) == (49152, 1, (2, 0), False)
    assert found.tokens[504] == b"The" and found.scores[504] == -504.0
    assert (found.template or "").startswith("{% for message in messages %}")
    again = tmp_path / "again"
    again.mkdir()
    assert converted(path, again, capsys).read_bytes() == path.read_bytes()
    assert main(["tokenize", "--tokenizer", str(path), "--prompt", "<|im_start|>The", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ids"] == [1, 504]


def test_the_written_file_answers_a_chat(
    smollm2_gguf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tokenizer of the model and the `.t` file made of it give the same prompt and the same answer."""
    path = converted(smollm2_gguf, tmp_path, capsys)
    answers = []
    for more in ([], ["--tokenizer", str(path)]):
        assert (
            main(["inference", "--model", str(smollm2_gguf), "--nthreads", "1", "--steps", "4", "--json", *more]) == 0
        )
        result = json.loads(capsys.readouterr().out)
        answers.append([result[key] for key in ("prompt_ids", "ids", "text")])
    assert answers[0] == answers[1]


def test_neither_mpi_nor_numba_is_needed(tmp_path: Path) -> None:
    done = run_isolated("convert", "tokenizer", str(folder(tmp_path / "source")), "x", "--output", str(tmp_path))
    assert done.returncode == 0 and " B; it is found beside the model of its name" in done.stderr
    done = run_isolated("tokenize", "--tokenizer", str(tmp_path / "dllama_tokenizer_x.t"), "--prompt", "a a", "--json")
    assert json.loads(done.stdout) == {"ids": [0, 2], "pieces": ["a", " a"]}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["SOURCE"], "the following arguments are required: NAME"),
        (["SOURCE", "a/b"], "NAME 'a/b' must be a plain name"),
        (["SOURCE", "x", "--output", "x.m"], "neither a folder that exists nor the name of a .t file"),
        (["none", "x"], "none: there is no such tokenizer; give a .t file, a tokenizer.json"),
        (["SOURCE/config.json", "x"], "config.json: is no tokenizer; give a .t file"),
        (["NO_BEGIN", "x"], "no begin token, and a .t file must name one; set bos_token_id in config.json"),
        (["WORDS", "x"], "the tokenizer is a WordLevel model; a .t file can hold BPE only"),
        (["GAP", "x"], "token 3 is empty"),
        (["FAR", "x"], "name 70 as begin or end token; its tokenizer has ids 0 to 6"),
    ],
)
def test_errors_are_one_line_and_leave_nothing(
    arguments: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    folder(tmp_path / "SOURCE")
    folder(tmp_path / "NO_BEGIN", config={"eos_token_id": 6})
    words = {"bos_token_id": 0, "eos_token_id": 0}
    Backend(WordLevel({"a": 0}, unk_token="a")).save(str(folder(tmp_path / "WORDS", config=words) / "tokenizer.json"))
    folder(tmp_path / "FAR", config={"bos_token_id": 70, "eos_token_id": 6})
    gap = folder(tmp_path / "GAP") / "tokenizer.json"
    gap.write_text(gap.read_text().replace('"Ã": 3', '"Ã": 9'))
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    assert main(["convert", "tokenizer", *arguments]) == 2
    told = capsys.readouterr()
    assert message in told.err and told.err.count("\n") == 1 and told.out == ""
    assert sorted(tmp_path.iterdir()) == before
