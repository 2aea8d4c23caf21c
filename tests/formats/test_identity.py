# python -m pytest tests/formats/test_identity.py
from pathlib import Path

from dllama_py.blocks import FloatType
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.formats.identity import LocalCopy, local_copy, open_copy
from dllama_py.formats.synthetic import SyntheticCheckpoint
from tests.checkpoints import tiny_config, tiny_gguf


def copy_of(path: Path) -> LocalCopy:
    copy = local_copy(open_checkpoint(path))
    assert copy is not None
    return copy


def moved(copy: LocalCopy, path: Path) -> LocalCopy:
    """As if it had to be found there."""
    return LocalCopy(str(path), copy.fingerprint)


def test_the_same_bytes_at_the_path_are_taken(tmp_path: Path) -> None:
    first, second = tiny_gguf(tmp_path / "a.gguf"), tmp_path / "b.gguf"
    second.write_bytes(first.read_bytes())
    found = open_copy(moved(copy_of(first), second))
    assert found is not None
    assert found.path == second


def test_the_path_is_absolute(tmp_path: Path) -> None:
    assert Path(copy_of(tiny_gguf(tmp_path / "a.gguf")).path).is_absolute()


def test_other_weights_of_the_same_size_are_not(tmp_path: Path) -> None:
    copy = copy_of(tiny_gguf(tmp_path / "a.gguf"))
    other = tiny_gguf(tmp_path / "b.gguf", distinct=True)
    assert other.stat().st_size == Path(copy.path).stat().st_size
    assert open_copy(moved(copy, other)) is None


def test_a_last_byte_that_differs_is_seen(tmp_path: Path) -> None:
    first, second = tiny_gguf(tmp_path / "a.gguf"), tmp_path / "b.gguf"
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    second.write_bytes(data)
    assert open_copy(moved(copy_of(first), second)) is None


def test_nothing_there_or_no_model(tmp_path: Path) -> None:
    copy = copy_of(tiny_gguf(tmp_path / "a.gguf"))
    assert open_copy(moved(copy, tmp_path / "none.gguf")) is None
    (tmp_path / "text.gguf").write_text("no model")
    assert open_copy(moved(copy, tmp_path / "text.gguf")) is None
    assert open_copy(moved(copy, tmp_path)) is None


def test_random_weights_have_no_copy() -> None:
    assert local_copy(SyntheticCheckpoint(tiny_config(), FloatType.Q40)) is None
