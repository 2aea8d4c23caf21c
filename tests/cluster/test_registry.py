# python -m pytest tests/cluster/test_registry.py
from pathlib import Path

import pytest

from dllama_py.cluster import registry


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLLAMA_HOME", str(tmp_path / "home"))


def test_a_model_that_is_gone_is_not_offered(tmp_path: Path) -> None:
    assert registry.last_model() is None
    (tmp_path / "model.gguf").touch()
    registry.remember_last_model(tmp_path / "model.gguf")
    assert registry.last_model() == tmp_path / "model.gguf"
    (tmp_path / "model.gguf").unlink()
    assert registry.last_model() is None


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"last_model": 3}'])
def test_a_damaged_registry_is_no_registry(tmp_path: Path, text: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "registry.json").write_text(text)
    assert registry.last_model() is None
