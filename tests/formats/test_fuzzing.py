# python -m pytest tests/formats/test_fuzzing.py
"""Random damage to models of every format: opened, or refused in one line."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dllama_py.errors import InputError
from dllama_py.formats.checkpoint import Embedding, open_checkpoint
from tests.checkpoints import own_folder, tiny_gguf, tiny_model_file
from tests.fuzzing import for_some_time

EVIL = [b"\0", b"\xff", b"\x7f", b"\0" * 8, b"\xff" * 8, b"\xff" * 7 + b"\x7f", b"9" * 12, b"{", b'"', b"[" * 40]
changes = st.lists(
    st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=8) | st.sampled_from(EVIL)),
    min_size=1,
    max_size=4,
)


def check_damage(model: Path, file: Path, n_bytes: int) -> None:
    """Damages the first n_bytes of a file of the model, or cuts it there."""
    whole = file.read_bytes()

    @settings(max_examples=120)
    @given(changes, st.booleans())
    def check(places: list[tuple[float, bytes]], cut: bool) -> None:
        data = bytearray(whole)
        for share, new in places:
            place = int(share * n_bytes)
            data[place : place + len(new)] = new
        file.write_bytes(data[: int(places[0][0] * n_bytes)] if cut else data)
        try:
            checkpoint = open_checkpoint(model)
            Embedding(checkpoint).rows([0, checkpoint.config.vocab_size - 1])
        except InputError as error:
            assert "\n" not in str(error)

    for_some_time(check)


def test_model_file(tmp_path: Path) -> None:
    path = tiny_model_file(tmp_path / "a.m")
    check_damage(path, path, 200)


def test_gguf(tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "a.gguf")
    check_damage(path, path, path.read_bytes().index(b"blk.1."))


@pytest.mark.parametrize("part", [0, 1])
def test_part_of_a_split_gguf(part: int, tmp_path: Path) -> None:
    path = tiny_gguf(tmp_path / "a.gguf", part_tensors=12)
    check_damage(path, sorted(tmp_path.glob("a-*"))[part], 400)


@pytest.mark.parametrize(("name", "n_bytes"), [("config.json", 0), ("model.safetensors.index.json", 0), ("", 3000)])
def test_folder(name: str, n_bytes: int, tmp_path: Path) -> None:
    folder = own_folder(tmp_path / "folder")
    file = folder / name if name else sorted(folder.glob("*.safetensors"))[0]
    check_damage(folder, file, n_bytes or file.stat().st_size)
