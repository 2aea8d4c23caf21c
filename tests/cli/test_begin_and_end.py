# python -m pytest tests/cli/test_begin_and_end.py
"""Begin and end tokens through the real commands, wherever a model's files name them."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer as Backend
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from dllama_py.cli import main
from tests.checkpoints import change_config, own_folder, tiny_config, tiny_gguf

N_TOKENS = tiny_config().vocab_size
NO_ENDS = ("eos_token_id", "bos_token_id")


def spoken(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """The JSON object that a command prints."""
    assert main([*map(str, arguments), "--json"]) == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    return result


def answer(capsys: pytest.CaptureFixture[str], model: Path) -> dict[str, Any]:
    return spoken(capsys, "inference", "--model", model, "--nthreads", "1", "--ids", "11,21,45", "--steps", "8")


def model_folder(place: Path, **files: dict[str, Any]) -> Path:
    """A tiny model; its config.json names no begin or end token unless files do."""
    folder = own_folder(place)
    change_config(folder, *NO_ENDS)
    change_config(folder, **files.pop("config", {}))
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def add_tokenizer(folder: Path) -> None:
    """A word `tN` for each id N."""
    backend = Backend(WordLevel({f"t{id}": id for id in range(N_TOKENS)}, unk_token="t0"))
    backend.pre_tokenizer = Whitespace()
    backend.save(str(folder / "tokenizer.json"))


@pytest.fixture
def ids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[int]:
    """What the model answers where nothing ends it."""
    result = answer(capsys, model_folder(tmp_path / "endless"))
    assert (result["finish_reason"], len(result["ids"])) == ("length", 8)
    return list(result["ids"])


@pytest.mark.parametrize("with_tokenizer", [False, True])
def test_any_of_several_end_tokens_ends_an_answer(
    ids: list[int], with_tokenizer: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where the folder has no tokenizer: end tokens are ids."""
    for ends, config_end in (([7, ids[0]], 7), ([7, 8], ids[0]), (ids[0], None)):
        config = {} if config_end is None else {"eos_token_id": config_end}
        place = tmp_path / f"{ends} {config_end}"
        folder = model_folder(place, config=config, generation_config={"eos_token_id": ends})
        if with_tokenizer:
            add_tokenizer(folder)
        result = answer(capsys, folder)
        assert (result["ids"], result["finish_reason"]) == (ids[:1], "stop")


def test_an_end_token_that_only_the_tokenizer_names(
    ids: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = model_folder(tmp_path / "named", tokenizer_config={"eos_token": f"t{ids[0]}"})
    add_tokenizer(folder)
    assert answer(capsys, folder)["finish_reason"] == "stop"


def test_the_end_token_of_a_gguf_without_a_tokenizer(
    ids: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from tests import checkpoints

    path = tiny_gguf(tmp_path / "endless.gguf")
    first = answer(capsys, path)["ids"][0]
    monkeypatch.setattr(checkpoints, "add_tokenizer", lambda writer, _: writer.add_eos_token_id(first))
    result = answer(capsys, tiny_gguf(tmp_path / "a.gguf"))
    assert (result["ids"], result["finish_reason"]) == ([first], "stop")


@pytest.mark.parametrize(
    ("files", "prefix"),
    [
        ({"config": {"bos_token_id": None}}, []),
        ({"tokenizer_config": {"bos_token": None, "add_bos_token": True}, "config": {"bos_token_id": 3}}, []),
        ({"config": {"bos_token_id": 0}, "tokenizer_config": {"add_bos_token": True}}, [0]),
        ({"tokenizer_config": {"bos_token": "t0", "add_bos_token": True}}, [0]),
        ({"tokenizer_config": {"bos_token": {"content": "t9"}, "add_bos_token": True}}, [9]),
        ({"tokenizer_config": {"bos_token": "t9", "add_bos_token": False}}, []),
        ({"config": {"bos_token_id": 9}}, []),
    ],
)
def test_the_begin_token_goes_first_once_or_not_at_all(
    files: dict[str, Any], prefix: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = model_folder(tmp_path / "a", **files)
    add_tokenizer(folder)
    assert spoken(capsys, "tokenize", "--model", folder, "--prompt", "t5 t6")["ids"] == [*prefix, 5, 6]


@pytest.mark.parametrize("template", ["{{ bos_token }} t5", "t5"])
def test_a_template_that_begins_itself_does_not_do_so_twice(
    template: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tokenizer = {"bos_token": "t9", "add_bos_token": True, "chat_template": template}
    folder = model_folder(tmp_path / "a", tokenizer_config=tokenizer)
    add_tokenizer(folder)
    result = spoken(capsys, "inference", "--model", folder, "--nthreads", "1", "--steps", "1")
    assert result["prompt_ids"] == [9, 5]
