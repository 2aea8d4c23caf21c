# python -m pytest tests/cluster/test_choice.py
import pytest

from dllama_py.cluster.choice import choose_folder, choose_gguf
from dllama_py.cluster.remote import RemoteFile
from dllama_py.errors import UsageError


def files(*names: str) -> list[RemoteFile]:
    return [RemoteFile("me/model", "c", name, 2_000_000_000, None, "") for name in names]


GGUFS = files(
    "m-Q4_K_M.gguf", "m-Q8_0.gguf", "README.md", "big/m-F16-00002-of-00002.gguf", "big/m-F16-00001-of-00002.gguf"
)


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ("m-Q8_0.gguf", ["m-Q8_0.gguf"]),
        ("q8_0", ["m-Q8_0.gguf"]),
        ("F16", ["big/m-F16-00001-of-00002.gguf", "big/m-F16-00002-of-00002.gguf"]),
        ("m-F16-00001-of-00002.gguf", ["big/m-F16-00001-of-00002.gguf", "big/m-F16-00002-of-00002.gguf"]),
    ],
)
def test_one_gguf(wanted: str, names: list[str]) -> None:
    assert [file.name for file in choose_gguf("me/model", GGUFS, wanted)] == names


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ("Q5_K", r"me/model: no GGUF file fits 'Q5_K'; name one of: big/.* \(4.0 GB\), m-Q4_K_M.gguf \(2.0 GB\), m-Q8"),
        ("m-Q", "me/model: several GGUF files fit 'm-Q'; name one of: m-Q4_K_M.gguf .*, m-Q8_0.gguf"),
    ],
)
def test_no_single_gguf(wanted: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        choose_gguf("me/model", GGUFS, wanted)


def test_a_gguf_where_there_is_none() -> None:
    with pytest.raises(UsageError, match="me/model has no GGUF file; leave ':Q8_0' out"):
        choose_gguf("me/model", files("config.json", "model.safetensors"), "Q8_0")


def test_a_folder_is_config_tokenizer_and_weights() -> None:
    chosen = choose_folder(
        "me/model",
        files(
            "README.md", "config.json", "tokenizer.json", "model-00001-of-00002.safetensors", "pytorch_model.bin",
            "model-00002-of-00002.safetensors", "model.safetensors.index.json", "consolidated.safetensors",
            "onnx/model.safetensors", "../config.json",
        )
    )  # fmt: skip
    assert [file.name for file in chosen] == [
        "config.json",
        "tokenizer.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
    ]


def test_a_repository_of_ggufs_wants_a_name() -> None:
    with pytest.raises(UsageError, match="me/model holds GGUF files; name one, as me/model:FILE, of: big/"):
        choose_folder("me/model", GGUFS)


def test_a_repository_of_neither() -> None:
    with pytest.raises(UsageError, match="me/model has neither GGUF files nor config.json with safetensors"):
        choose_folder("me/model", files("config.json", "pytorch_model.bin"))


def test_an_empty_repository_is_named() -> None:
    with pytest.raises(UsageError, match="^me/empty has neither GGUF files nor"):
        choose_folder("me/empty", [])
    with pytest.raises(UsageError, match="^me/empty has no GGUF file; leave ':Q8_0' out"):
        choose_gguf("me/empty", [], "Q8_0")
