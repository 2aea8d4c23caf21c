# python -m pytest tests/formats/test_soundness.py
"""Weights that are no numbers are found at both ends of every tensor, in every type, before anything is loaded."""

from pathlib import Path

import pytest

from dllama_py.blocks import FloatType
from dllama_py.errors import InputError
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.formats.soundness import refuse_broken
from dllama_py.formats.synthetic import SyntheticCheckpoint
from tests.checkpoints import tiny_config, tiny_folder, tiny_gguf, tiny_model_file

INFINITE = {FloatType.F32: b"\x00\x00\x80\x7f", FloatType.F16: b"\x00\x7c", FloatType.Q40: b"\x00\x7c"}


@pytest.mark.parametrize("kind", INFINITE)
def test_the_first_value_of_the_head(kind: FloatType, tmp_path: Path) -> None:
    path = tiny_model_file(tmp_path / "tiny.m", weights=kind)
    data = path.read_bytes()
    start = len(data) - tiny_config().vocab_size * kind.n_bytes(tiny_config().width)
    path.write_bytes(data[:start] + INFINITE[kind] + data[start + len(INFINITE[kind]) :])
    with pytest.raises(InputError, match=r"tiny\.m: head holds a value that is infinite or not a number; expected fin"):
        refuse_broken(open_checkpoint(path))


@pytest.mark.parametrize("kind", [FloatType.F32, FloatType.F16])
def test_the_last_value_of_the_head(kind: FloatType, tmp_path: Path) -> None:
    path = tiny_model_file(tmp_path / "tiny.m", weights=kind)
    path.write_bytes(path.read_bytes()[: -len(INFINITE[kind])] + INFINITE[kind])
    with pytest.raises(InputError, match=r"tiny\.m: head holds a value"):
        refuse_broken(open_checkpoint(path))


@pytest.mark.parametrize("name", ["tiny-llama", "tiny-qwen3", "tiny-qwen3moe"])
def test_sound_models_pass(name: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    for path in (tiny_folder(tmp_path_factory, name), tiny_gguf(tmp_path / "tiny.gguf", name)):
        refuse_broken(open_checkpoint(path))
    refuse_broken(SyntheticCheckpoint(tiny_config(name), FloatType.Q80))
