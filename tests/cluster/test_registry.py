# python -m pytest tests/cluster/test_registry.py
import json
from pathlib import Path

import pytest

from dllama_py.cluster.registry import (
    RegisteredModel,
    find_model,
    forget,
    last_model,
    named,
    registered_models,
    remember,
)
from dllama_py.errors import UsageError


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLLAMA_HOME", str(tmp_path / "home"))


def fetched(folder: Path, name: str, source: str | None = None) -> RegisteredModel:
    """A model that is there and known."""
    own = folder / "models" / (source or name).replace("/", "--")
    own.mkdir(parents=True, exist_ok=True)
    path = own / f"{name}.gguf"
    path.touch()
    model = RegisteredModel(name, source or name, path, own, (path,))
    remember(model)
    return model


def test_a_model_that_is_gone_is_not_offered(tmp_path: Path) -> None:
    assert last_model() is None
    model = fetched(tmp_path, "a")
    assert (last_model(), registered_models()) == (model.path, [model])
    model.path.unlink()
    assert (last_model(), registered_models()) == (None, [])


def test_the_newest_is_the_default_and_the_one_before_it_after_that(tmp_path: Path) -> None:
    a, b = fetched(tmp_path, "a"), fetched(tmp_path, "b")
    assert last_model() == b.path
    remember(a)
    assert last_model() == a.path
    forget(a)
    assert (last_model(), registered_models()) == (b.path, [b])
    forget(b)
    assert (last_model(), registered_models()) == (None, [])


def test_a_registry_of_an_earlier_version_keeps_its_default(tmp_path: Path) -> None:
    (tmp_path / "old.gguf").touch()
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "registry.json").write_text(json.dumps({"last_model": str(tmp_path / "old.gguf")}))
    assert (last_model(), registered_models()) == (tmp_path / "old.gguf", [])


SPOILT = '{"models": {"/": {"name": "a", "source": "a", "folder": "/", "files": []}}}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"last_model": 3}',
        '{"models": 3}',
        '{"models": {"a": {}}}',
        "[" * 100_000,
        SPOILT.replace('"name": "a"', '"name": 3'),
        SPOILT.replace('"source": "a"', '"source": null'),
        SPOILT.replace("[]", '"letters are no files"'),
        SPOILT.replace("[]", "[3]"),
        SPOILT.replace("[]", '["a\\u0000b"]'),
    ],
)
def test_a_damaged_registry_is_no_registry(tmp_path: Path, text: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "registry.json").write_text(text)
    assert (last_model(), registered_models()) == (None, [])
    model = fetched(tmp_path, "a")
    assert registered_models() == [model]


@pytest.mark.parametrize(
    ("name", "is_found"),
    [
        ("qwen3_0.6b_q40", True),
        ("Qwen3-0.6B-Q40", True),
        ("qwen3_0.6b", True),
        ("qwen3", False),  # fits two
        ("qwen3_0.6", False),
        ("q40", False),
    ],
)
def test_names(tmp_path: Path, name: str, is_found: bool) -> None:
    fetched(tmp_path, "qwen3_8b_q40")
    model = fetched(tmp_path, "qwen3_0.6b_q40")
    assert (named(registered_models(), name) == [model]) is is_found


def test_a_path_comes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = fetched(tmp_path, "a")
    monkeypatch.chdir(tmp_path)
    assert find_model(Path("a")) == model.path
    Path("a").touch()
    assert find_model(Path("a")) == Path("a")


def test_what_a_model_was_fetched_as_names_it_too(tmp_path: Path) -> None:
    one, other = fetched(tmp_path, "tiny", "me/tiny"), fetched(tmp_path, "tiny", "you/tiny")
    assert (find_model(Path("me/tiny")), find_model(Path("You/Tiny"))) == (one.path, other.path)
    with pytest.raises(UsageError, match="tiny: several fetched models have that name; name one: me/tiny, you/tiny"):
        find_model(Path("tiny"))


def test_a_folder_with_one_model_in_it(tmp_path: Path) -> None:
    model = fetched(tmp_path, "a")
    assert find_model(model.folder) == model.path
    (model.folder / "config.json").touch()
    assert find_model(model.folder) == model.folder, "a Hugging Face folder is a model itself"


def test_a_folder_with_a_split_model_and_one_with_two(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"m-0000{number}-of-00002.gguf").touch()
    assert find_model(tmp_path) == tmp_path / "m-00001-of-00002.gguf"
    (tmp_path / "other.m").touch()
    with pytest.raises(UsageError, match=r"holds 2 models; name one: .*m-00001-of-00002.gguf, .*other.m"):
        find_model(tmp_path)


def test_what_is_nowhere(tmp_path: Path) -> None:
    fetched(tmp_path, "llama")
    with pytest.raises(UsageError, match="qwen3_0.6b: not fetched yet; fetch it with: python launch.py qwen3_0.6b_q40"):
        find_model(Path("qwen3_0.6b"))
    with pytest.raises(
        UsageError, match=r"lama: no file or folder, and no fetched model \(here: llama\); did you mean"
    ):
        find_model(Path("lama"))
    for path in ("gone.gguf", "models/gone", "/gone"):
        assert find_model(Path(path)) == Path(path), "who opens it says that it is not there"
