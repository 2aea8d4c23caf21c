# python -m pytest tests/formats/test_complete_file.py
"""A file that is there whole or not at all, however the process that writes it ends."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dllama_py.formats.complete_file import _nameless, complete_or_gone

KILLED = """
import os, sys
from pathlib import Path
from dllama_py.formats.complete_file import complete_or_gone

with complete_or_gone(Path(sys.argv[1]), 100_000) as file:
    file.write(bytes(100_000))
    file.flush()
    os.kill(os.getpid(), 9)
"""


@pytest.fixture(params=["a file system with nameless files", "one without"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if request.param == "one without":
        monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    return tmp_path


@pytest.mark.parametrize("before", [None, b"an older file"])
def test_it_takes_its_name_at_the_end(folder: Path, before: bytes | None) -> None:
    out = folder / "x"
    if before is not None:
        out.write_bytes(before)
    with complete_or_gone(out, 3) as file:
        file.write(b"new")
        file.flush()
        assert (out.read_bytes() if out.exists() else None) == before
    assert [path.read_bytes() for path in folder.iterdir()] == [b"new"]
    plain = folder / "y"
    plain.touch()
    assert out.stat().st_mode == plain.stat().st_mode


def test_it_is_gone_after_an_error(folder: Path) -> None:
    with pytest.raises(KeyError), complete_or_gone(folder / "x", 3) as file:
        file.write(b"new")
        raise KeyError
    assert not list(folder.iterdir())


def test_it_is_gone_after_a_kill(tmp_path: Path) -> None:
    nameless = _nameless(tmp_path)
    if nameless is None:
        pytest.skip(f"the file system of {tmp_path} has no files without a name")
    os.close(nameless)
    command = [sys.executable, "-c", KILLED, tmp_path / "x"]
    assert subprocess.run(command, check=False, timeout=60).returncode == -9
    assert not list(tmp_path.iterdir())
