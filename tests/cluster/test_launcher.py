# python -m pytest tests/cluster/test_launcher.py
import stat
import sys
from pathlib import Path

import pytest

from dllama_py.cluster import registry
from dllama_py.cluster.launcher import launch, run_ranks


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLLAMA_HOME", str(tmp_path / "home"))


def test_without_a_name_the_known_models_are_listed(tmp_path: Path) -> None:
    said: list[str] = []
    assert launch([], tmp_path, said.append) == 0
    assert said[1] == "  smollm2_135m                0.10 GB  SmolLM2 135M Instruct, Q4_1"


def test_an_unknown_name_is_one_line_and_exit_2(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert launch(["nothing"], tmp_path, print) == 2
    assert capfd.readouterr() == ("", "no model 'nothing' in the catalogue; it has: smollm2_135m\n")


def test_no_ranks_are_too_few(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert launch(["smollm2_135m", "--nodes", "0"], tmp_path, print) == 2
    assert capfd.readouterr() == ("", "--nodes 0: expected the number of ranks to start, at least 1\n")


def test_a_fetched_model_is_remembered(smollm2_gguf: Path) -> None:
    assert registry.last_model() is None
    assert launch(["smollm2_135m", "--skip-run"], smollm2_gguf.parent.parent, lambda line: None) == 0
    assert registry.last_model() == smollm2_gguf


def test_a_model_that_is_gone_is_not_offered(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(("code", "reported"), [(0, 0), (2, 2), (3, 3), (9, 3), (130, 130), (255, 3)])
def test_exit_codes_of_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, reported: int) -> None:
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(f'#!/bin/sh\n[ "$1 $2 $4 $5 $6" = "-np 4 -m dllama_py chat" ] || exit 99\nexit {code}\n')
    mpirun.chmod(mpirun.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert run_ranks(4, ["chat"]) == reported
