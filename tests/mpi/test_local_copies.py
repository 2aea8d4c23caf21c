# mpirun -np 2 python -m pytest --with-mpi tests/mpi/test_local_copies.py
"""Ranks of a pipeline read their layers from their own copy of the file only where it is the root's, byte for byte."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from dllama_py.boot import open_engine
from dllama_py.errors import InputError
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.formats.identity import LocalCopy, open_copy
from dllama_py.formats.mapped import MappedCheckpoint
from dllama_py.settings import EngineSettings, PipelineSettings
from dllama_py.sharding.distribute import distribute
from dllama_py.transport.comm import Comm
from dllama_py.transport.failure import AgreedExit, AgreedFailure
from tests.checkpoints import tiny_gguf, tiny_model_file
from tests.support.engines import logits_of, solo_logits

pytestmark = pytest.mark.mpi(sizes=(2, 4))

N_LAYERS = 8
IDS = [(29 * i * i + 11 * i + 5) % 300 for i in range(20)]
SAMPLES, SAMPLE_BYTES = 256, 4096  # that files were once compared by
Spoil = Callable[[Path, MappedCheckpoint], None]


def make(folder: Path, **changes: object) -> Path:
    """A model whose file is so long that more than 4,000 bytes lie between two of those samples."""
    folder.mkdir(exist_ok=True)
    wide = {"hidden_size": 256, "intermediate_size": 1024, "num_hidden_layers": N_LAYERS}
    return tiny_gguf(folder / "model.gguf", distinct=True, **wide, **changes)  # type: ignore[arg-type]


def write(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def hole(path: Path, checkpoint: MappedCheckpoint) -> None:
    """4,000 bytes that never came, between two samples, in the last rank's layers."""
    stored = checkpoint.stored[f"layers.{N_LAYERS - 1}.down"]
    size = path.stat().st_size
    places = [(size - SAMPLE_BYTES) * number // (SAMPLES - 1) for number in range(SAMPLES)]
    offset = next(place + SAMPLE_BYTES for place in places if place >= stored.offset)
    assert offset + 4000 <= min(place for place in places if place >= offset)
    write(path, offset, bytes(4000))


def bad_scale(path: Path, checkpoint: MappedCheckpoint) -> None:
    """20 bytes, a scale that is no number among them."""
    write(path, checkpoint.stored[f"layers.{N_LAYERS - 1}.down"].offset + 9 * 18, b"\xff\x7f" * 10)


def bad_norm(path: Path, checkpoint: MappedCheckpoint) -> None:
    write(path, checkpoint.stored[f"layers.{N_LAYERS - 1}.ffn_norm"].offset, b"\0\0\0\x40")


def cut_short(path: Path, _: MappedCheckpoint) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 5000)


def no_model(path: Path, _: MappedCheckpoint) -> None:
    path.write_text("<html>")


def other_model(path: Path, _: MappedCheckpoint) -> None:
    make(path.parent, num_key_value_heads=8)


def other_types(path: Path, _: MappedCheckpoint) -> None:
    make(path.parent, kind="Q5_0")


def folder(path: Path, _: MappedCheckpoint) -> None:
    path.unlink()
    path.mkdir()


def other_name(path: Path, _: MappedCheckpoint) -> None:
    """Another header before the same weights."""
    data = path.read_bytes()
    path.write_bytes(data.replace(b"<|300|>", b"<|xyz|>"))
    assert path.read_bytes() != data


def same(path: Path, _: MappedCheckpoint) -> None:
    """Nothing."""


def gone(path: Path, _: MappedCheckpoint) -> None:
    path.unlink()


class Cluster:
    """All ranks but the root have a copy of their own where the root has its file, that of the last one spoiled."""

    def __init__(self, comm: Comm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("DLLAMA_HOME", str(tmp_path / "home"))  # of each rank
        monkeypatch.setattr("dllama_py.formats.piece_hashes.PIECE_BYTES", 10_000)
        self.comm, self.path = comm, tmp_path / "root" / "model.gguf"
        self.lines: list[str] = []
        self._patch = monkeypatch

    def make(self, spoil: Spoil, make: Callable[[Path], Path] = make) -> None:
        self.path = make(self.path.parent)
        if self.comm.rank == self.comm.size - 1:
            spoiled = open_checkpoint(self.path)
            assert isinstance(spoiled, MappedCheckpoint)
            spoil(self.path, spoiled)
        if self.comm.rank:
            self._patch.setattr("dllama_py.sharding.local_copies.open_copy", partial(_opened, self.path))

    def logits(self, local_copies: str = "auto", n_stages: int | None = None) -> bytes:
        """At the root; also the lines that it has said."""
        split = "4,4" if (n_stages or self.comm.size) == 2 else "2,2,2,2"
        pipeline = PipelineSettings(n_stages, split, local_copies=local_copies)
        settings = EngineSettings(n_threads=1, pipeline=pipeline)
        lines: list[str] = []
        with open_engine(settings, self.comm, lambda: open_checkpoint(self.path), lines.append) as engine:
            found = logits_of(engine, IDS).tobytes() if engine else b""
        self.lines = [line for line in lines if "model" in line and line.startswith("rank ")]
        return found


def _opened(path: Path, copy: LocalCopy) -> MappedCheckpoint | None:
    """As if it lay where the root's file does."""
    return open_copy(replace(copy, path=str(path)))


@pytest.fixture
def cluster(comm: Comm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(comm, tmp_path, monkeypatch)


def alone(cluster: Cluster) -> bytes:
    return solo_logits(cluster.path, [IDS])[0].tobytes()


SPOILED = {
    hole: f"differs from the root's file in layers.{N_LAYERS - 1}.down; copy it again",
    bad_scale: f"differs from the root's file in layers.{N_LAYERS - 1}.down; copy it again",
    bad_norm: f"differs from the root's file in layers.{N_LAYERS - 1}.ffn_norm; copy it again",
    cut_short: "it was cut short",
    no_model: "is a web page",
    other_model: "has other tensors than the root's file; copy it again",
    other_types: "has other tensors than the root's file; copy it again",
    folder: "",
}


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda spoil: spoil.__name__)
def test_what_differs_comes_from_the_root_and_is_told(comm: Comm, cluster: Cluster, spoil: Spoil) -> None:
    cluster.make(spoil)
    logits = cluster.logits()
    if comm.rank == 0:
        assert logits == alone(cluster)
        (line,) = cluster.lines
        assert line.startswith(f"rank {comm.size - 1} on {comm.hosts[-1]}: ")
        assert "model.gguf: " in line and SPOILED[spoil] in line
        assert line.endswith("; the root's bytes are used (docs/troubleshooting.md#local-copy)")


@pytest.mark.parametrize("spoil", [same, other_name, gone], ids=lambda spoil: spoil.__name__)
def test_of_the_same_weights_and_of_no_file_nothing_is_said(comm: Comm, cluster: Cluster, spoil: Spoil) -> None:
    cluster.make(spoil)
    logits = cluster.logits("strict")
    if comm.rank == 0:
        assert (logits, cluster.lines) == (alone(cluster), [])


def test_of_a_same_copy_nothing_is_sent(comm: Comm, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """So the test above has read the copies."""
    cluster.make(same)
    if comm.rank:
        monkeypatch.setattr("dllama_py.sharding.local_copies.receive", _must_not)
    cluster.logits()


def _must_not(*_: object) -> None:
    raise AssertionError("the root has sent weights")


@pytest.mark.parametrize("spoil", [hole, cut_short], ids=lambda spoil: spoil.__name__)
def test_strict_refuses_what_differs_on_all_ranks(comm: Comm, cluster: Cluster, spoil: Spoil) -> None:
    cluster.make(spoil)
    with pytest.raises(AgreedFailure if comm.rank == 0 else SystemExit) as caught:
        cluster.logits("strict")
    if comm.rank == 0:
        assert isinstance(caught.value, AgreedFailure) and isinstance(caught.value.error, InputError)
        assert str(caught.value.error).startswith(f"rank {comm.size - 1} on {comm.hosts[-1]}: ")
        assert str(caught.value.error).endswith(", or leave --local-copies strict out")
    else:
        assert isinstance(caught.value, SystemExit) and caught.value.code == 2


def test_off_looks_for_no_copy(comm: Comm, cluster: Cluster) -> None:
    cluster.make(hole)
    if comm.rank:
        cluster._patch.setattr("dllama_py.sharding.local_copies.open_copy", _must_not)
    logits = cluster.logits("off")
    if comm.rank == 0:
        assert (logits, cluster.lines) == (alone(cluster), [])


def test_a_part_of_a_split_file_is_named(comm: Comm, cluster: Cluster) -> None:
    def spoil(path: Path, checkpoint: MappedCheckpoint) -> None:
        stored = checkpoint.stored[f"layers.{N_LAYERS - 1}.down"]
        assert stored.file.path != path
        write(stored.file.path, stored.offset, bytes(100))

    cluster.make(spoil, partial(make, part_tensors=30))
    logits = cluster.logits()
    if comm.rank == 0:
        assert logits == alone(cluster)
        part = open_checkpoint(cluster.path).files[-1].path.name
        assert [f"{part}: differs from the root's file in layers.7.down" in line for line in cluster.lines] == [True]


def test_a_model_file_of_distributed_llama(comm: Comm, cluster: Cluster) -> None:
    def made(folder: Path) -> Path:
        folder.mkdir()
        return tiny_model_file(folder / "model.m", num_hidden_layers=N_LAYERS)

    cluster.make(hole_anywhere, made)
    logits = cluster.logits()
    if comm.rank == 0:
        assert logits == alone(cluster)
        assert len(cluster.lines) == 1


def hole_anywhere(path: Path, checkpoint: MappedCheckpoint) -> None:
    write(path, checkpoint.stored["head"].offset + 18, bytes(20))


@pytest.mark.mpi(sizes=(4,))
@pytest.mark.parametrize("spoil", [hole, same], ids=lambda spoil: spoil.__name__)
def test_two_ranks_that_share_a_stage(comm: Comm, cluster: Cluster, spoil: Spoil) -> None:
    cluster.make(spoil)
    logits = cluster.logits(n_stages=2)
    if comm.rank == 0:
        assert logits == alone(cluster)
        assert len(cluster.lines) == (spoil is hole)


def test_values_that_cannot_be_loaded_come_from_the_root(
    comm: Comm, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A router in half precision is widened, which a value that is no number stops."""
    cluster.make(same)
    if comm.rank == comm.size - 1:
        monkeypatch.setattr("dllama_py.sharding.local_copies.distribute", _cannot)
    logits = cluster.logits()
    if comm.rank == 0:
        assert logits == alone(cluster)
        assert ["more tensors; copy it again" in line for line in cluster.lines] == [True]


def _cannot(*_: object, **__: object) -> None:
    raise InputError("holds a value that is infinite")


@pytest.mark.parametrize("n_stages", [None, 1])
def test_a_roots_file_that_is_written_to_while_it_loads_is_refused(
    comm: Comm, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, n_stages: int | None
) -> None:
    cluster.make(same)
    if comm.rank == 0:
        monkeypatch.setattr("dllama_py.sharding.local_copies.distribute", partial(_rewritten, cluster.path))
    settings = EngineSettings(n_threads=1, pipeline=None if n_stages else PipelineSettings())
    with (
        pytest.raises(AgreedFailure if comm.rank == 0 else AgreedExit) as caught,
        open_engine(settings, comm, lambda: open_checkpoint(cluster.path), [].append),
    ):
        pass
    assert "was written to while it was loaded" in str(caught.value.error)


def test_a_copy_that_is_written_to_while_it_loads_comes_from_the_root(
    comm: Comm, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hashes are known from before, so they tell nothing of what was loaded."""
    monkeypatch.setattr("dllama_py.formats.hash_table.SETTLED_NS", 0)
    cluster.make(same)
    cluster.logits()
    if comm.rank == comm.size - 1:
        monkeypatch.setattr("dllama_py.sharding.local_copies.distribute", partial(_rewritten, cluster.path))
    logits = cluster.logits()
    if comm.rank == 0:
        assert logits == alone(cluster)
        assert ["differs from the root's file" in line for line in cluster.lines] == [True]


def _rewritten(path: Path, *given: Any, **named: Any) -> None:
    """`distribute`, while somebody writes another norm."""
    checkpoint = open_checkpoint(path)
    assert isinstance(checkpoint, MappedCheckpoint)
    bad_norm(path, checkpoint)
    distribute(*given, **named)


def test_hashes_are_remembered(comm: Comm, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dllama_py.formats.hash_table.SETTLED_NS", 0)
    cluster.make(hole)
    first, lines = cluster.logits(), cluster.lines
    monkeypatch.setattr("dllama_py.formats.piece_hashes._hash", _must_not)
    assert cluster.logits() == first
    assert cluster.lines == lines
    assert len(lines) == (comm.rank == 0)
