# python -m pytest tests/kernels/test_on_demand.py
import errno
import os
from pathlib import Path

import numpy as np
import pytest

from dllama_py.errors import UsageError
from dllama_py.kernels import code_cache
from dllama_py.kernels.on_demand import compiled_on_demand


@compiled_on_demand("uint32(uint32[::1])")
def last_of(words: np.ndarray) -> np.uint32:
    """The last of some words."""
    return words[words.size - 1]


def test_the_first_call_leaves_the_mark_that_lets_other_processes_load_without_waiting() -> None:
    mark = code_cache.FOLDER / f"{__name__}.last_of.ready"
    mark.unlink(missing_ok=True)
    assert last_of(np.arange(5, dtype=np.uint32)) == 4
    assert mark.exists()


def test_other_types_are_refused_rather_than_compiled_without_the_lock() -> None:
    last_of(np.arange(5, dtype=np.uint32))
    with pytest.raises(TypeError, match="No matching definition"):
        last_of(np.arange(5, dtype=np.uint16))


def test_a_disk_that_gets_full_is_told_with_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_cache, "FOLDER", tmp_path)
    with pytest.raises(
        UsageError, match=f"^{tmp_path}: compiled kernels cannot be kept there .No space left on device"
    ):
        with code_cache.compiling("a_kernel"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert not (tmp_path / "a_kernel.ready").exists()
