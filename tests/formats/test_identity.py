# python -m pytest tests/formats/test_identity.py
from dataclasses import replace
from pathlib import Path

import pytest

from dllama_py.blocks import FloatType
from dllama_py.errors import InputError
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.formats.identity import LocalCopy, local_copy, open_copy
from dllama_py.formats.synthetic import SyntheticCheckpoint
from tests.checkpoints import own_folder, tiny_config, tiny_gguf


def copy_of(path: Path) -> LocalCopy:
    copy = local_copy(open_checkpoint(path))
    assert copy is not None
    return copy


def moved(copy: LocalCopy, path: Path) -> LocalCopy:
    """As if it had to be found there."""
    return replace(copy, path=str(path))


def test_a_file_with_the_same_tensors_is_opened_whatever_their_values(tmp_path: Path) -> None:
    """Which only their hashes tell."""
    copy, other = copy_of(tiny_gguf(tmp_path / "a.gguf")), tiny_gguf(tmp_path / "b.gguf", distinct=True)
    found = open_copy(moved(copy, other))
    assert found is not None
    assert found.path == other


def test_the_path_is_absolute(tmp_path: Path) -> None:
    assert Path(copy_of(tiny_gguf(tmp_path / "a.gguf")).path).is_absolute()


@pytest.mark.parametrize("change", [{"kind": "Q8_0"}, {"num_hidden_layers": 1}, {"num_key_value_heads": 2}])
def test_other_tensors_are_refused(tmp_path: Path, change: dict[str, object]) -> None:
    copy = copy_of(tiny_gguf(tmp_path / "a.gguf"))
    with pytest.raises(InputError, match=r"b.gguf: has other tensors than the root's file; copy it again"):
        open_copy(moved(copy, tiny_gguf(tmp_path / "b.gguf", **change)))


def test_nothing_there_is_no_copy_and_no_model_is_refused(tmp_path: Path) -> None:
    copy = copy_of(tiny_gguf(tmp_path / "a.gguf"))
    assert open_copy(moved(copy, tmp_path / "none.gguf")) is None
    assert open_copy(moved(copy, tmp_path / "a.gguf" / "none.gguf")) is None
    (tmp_path / "text.gguf").write_text("no model")
    for path in (tmp_path / "text.gguf", tmp_path, own_folder(tmp_path / "folder")):
        with pytest.raises(InputError, match=str(path)):
            open_copy(moved(copy, path))


def test_folders_and_random_weights_have_no_copy(tmp_path: Path) -> None:
    assert local_copy(SyntheticCheckpoint(tiny_config(), FloatType.Q40)) is None
    assert local_copy(open_checkpoint(own_folder(tmp_path / "folder"))) is None
