# python -m pytest tests/formats/test_piece_hashes.py
"""Every byte of a tensor is in one piece, and what is remembered of a file holds only while that is what it was."""

import json
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import xxhash

from dllama_py.formats import hash_table, piece_hashes
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.formats.hash_table import recall, remember
from dllama_py.formats.mapped import MappedCheckpoint, MappedFile, spec_named
from dllama_py.formats.piece_hashes import PieceHashes, StoredPiece, pieces_of
from dllama_py.formats.tensors import tensor_specs
from tests.checkpoints import tiny_gguf


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of hashes. Files are settled as soon as they are written."""
    monkeypatch.setenv("DLLAMA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(hash_table, "SETTLED_NS", -(10**12))
    return tmp_path / "home" / hash_table.NAME


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> MappedCheckpoint:
    """In pieces of 3,000 bytes at most."""
    monkeypatch.setattr(piece_hashes, "PIECE_BYTES", 3000)
    return opened(tiny_gguf(tmp_path / "a.gguf"))


def opened(path: Path) -> MappedCheckpoint:
    checkpoint = open_checkpoint(path)
    assert isinstance(checkpoint, MappedCheckpoint)
    return checkpoint


def all_pieces(model: MappedCheckpoint) -> list[StoredPiece]:
    specs = tensor_specs(model.config)
    return [piece for spec in specs for piece in pieces_of(model, spec, range(spec.matrix_shape[0]))]


def digests(path: Path) -> list[bytes]:
    model = opened(path)
    with PieceHashes(model) as hashes:
        return [digest.tobytes() for digest in hashes.digests(all_pieces(model))]


def test_pieces_cover_every_tensor_once(model: MappedCheckpoint) -> None:
    for spec in tensor_specs(model.config):
        stored, (n_rows, n_columns) = model.stored[spec.name], spec.matrix_shape
        at = stored.offset
        for piece in pieces_of(model, spec, range(n_rows)):
            assert (piece.tensor, piece.file, piece.offset) == (spec.name, stored.file, at)
            assert piece.n_bytes <= max(3000, stored.kind.n_bytes(n_columns))
            at += piece.n_bytes
        assert at == stored.offset + n_rows * stored.kind.n_bytes(n_columns)


def test_pieces_of_some_rows_are_those_of_all_that_have_them(model: MappedCheckpoint) -> None:
    spec = spec_named(model.config, "layers.1.up")
    whole = list(pieces_of(model, spec, range(spec.shape[0])))
    row_bytes = model.stored[spec.name].kind.n_bytes(spec.shape[1])
    step = 3000 // row_bytes
    assert len(whole) > 3
    assert list(pieces_of(model, spec, range(step, 2 * step + 1))) == whole[1:3]
    assert list(pieces_of(model, spec, range(step - 1, step))) == whole[:1]
    assert list(pieces_of(model, spec, range(5, 5))) == []


def test_hashes_are_xxh3_of_the_bytes(model: MappedCheckpoint, table: Path) -> None:
    data = model.path.read_bytes()
    wanted = [xxhash.xxh3_128_digest(data[p.offset : p.offset + p.n_bytes]) for p in all_pieces(model)]
    assert digests(model.path) == wanted


def test_a_second_start_hashes_nothing(model: MappedCheckpoint, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = digests(model.path)
    assert table.exists()
    monkeypatch.setattr(piece_hashes, "_hash", None)
    assert digests(model.path) == first


@pytest.mark.parametrize("change", ["bytes", "bytes with the time set back", "another file in its place", "longer"])
def test_what_has_changed_is_hashed_again(model: MappedCheckpoint, table: Path, change: str) -> None:
    first, path, status = digests(model.path), model.path, model.path.stat()
    data = bytearray(path.read_bytes())
    data[model.stored["head"].offset] ^= 1
    if change == "another file in its place":
        other = path.with_name("b.gguf")
        other.write_bytes(data)
        other.replace(path)
    else:
        path.write_bytes(data + bytes(32) * (change == "longer"))
    if change != "bytes":
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    differing = [a != b for a, b in zip(first, digests(path), strict=True)]
    assert sum(differing) == 1


def test_a_file_that_changed_just_now_is_not_remembered(
    model: MappedCheckpoint, table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may change again within the same tick of the clock."""
    monkeypatch.setattr(hash_table, "SETTLED_NS", 3_600_000_000_000)
    digests(model.path)
    assert not table.exists()


def test_a_file_that_changed_since_it_was_mapped_is_not_remembered(model: MappedCheckpoint, table: Path) -> None:
    os.utime(model.path)
    with PieceHashes(model) as hashes:
        hashes.digests(all_pieces(model))
    assert not table.exists()


@pytest.mark.parametrize("damage", ["", "{", "[1]", '{"written_as": "md5", "files": {}}', '{"files": 3}', "[" * 9999])
def test_a_damaged_table_is_as_none_and_is_written_anew(model: MappedCheckpoint, table: Path, damage: str) -> None:
    first = digests(model.path)
    sound = json.loads(table.read_text())["files"]
    table.write_text(damage)
    assert digests(model.path) == first
    assert json.loads(table.read_text())["files"].keys() == sound.keys()


@pytest.mark.parametrize("hashes", [None, [], {"0": "00"}, {"0+5": 7}, {"0+5": "00"}, {"a+b": "00" * 16}])
def test_a_damaged_entry_is_as_none(model: MappedCheckpoint, table: Path, hashes: object) -> None:
    digests(model.path)
    found = json.loads(table.read_text())
    found["files"][str(model.path)]["hashes"] = hashes
    table.write_text(json.dumps(found))
    assert recall(model.files) == {model.files[0]: {}}


def test_a_folder_that_cannot_be_written_remembers_nothing(
    model: MappedCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setenv("DLLAMA_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(hash_table, "SETTLED_NS", -(10**12))
    assert digests(model.path) == digests(model.path)


def some_file(folder: Path, name: str) -> MappedFile:
    (folder / name).write_text("text")
    return MappedFile(folder / name)


def test_the_table_is_bounded_and_the_oldest_goes(tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [some_file(tmp_path, f"{number}") for number in range(5)]
    monkeypatch.setattr(hash_table, "MOST_FILES", 3)
    for number, file in enumerate(files):
        monkeypatch.setattr(hash_table.time, "time", lambda number=number: float(number))
        remember({file: {(0, 4): bytes(16)}})
    assert [bool(known) for known in recall(files).values()] == [False, False, True, True, True]
    monkeypatch.setattr(hash_table.time, "time", lambda: 9.0)
    larger = {files[0]: {(offset, 4): bytes(16) for offset in range(20)}}
    remember(larger)
    path = str(files[0].path)
    own_bytes = len(json.dumps(json.loads(table.read_text())["files"][path])) + len(path)
    monkeypatch.setattr(hash_table, "MOST_BYTES", own_bytes + 9)
    remember(larger)
    assert [bool(known) for known in recall(files).values()] == [True, False, False, False, False]
    assert table.stat().st_size < own_bytes + 100


def test_what_several_write_at_once_is_all_there(tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hash_table, "LOCK_TRIES", 100_000)
    file = some_file(tmp_path, "a")
    start = threading.Barrier(8)

    def write(number: int) -> None:
        start.wait()
        remember({file: {(number, 1): bytes([number] * 16)}})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    assert len(recall([file])[file]) == 8
    assert [path.name for path in table.parent.iterdir() if path.name not in (table.name, f"{table.name}.lock")] == []


def test_leaving_drops_what_is_not_hashed_yet(model: MappedCheckpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the end of a run would wait until a large file is read."""
    began, may_end, hashed = threading.Event(), threading.Event(), list[StoredPiece]()

    def slow(piece: StoredPiece) -> bytes:
        began.set()
        may_end.wait()
        hashed.append(piece)
        return bytes(16)

    monkeypatch.setattr(piece_hashes, "_hash", slow)
    with PieceHashes(model) as hashes:
        for piece in all_pieces(model):
            hashes.begin(piece)
        began.wait()
    may_end.set()
    hashes._pool.shutdown(wait=True)
    assert len(hashed) == 1
