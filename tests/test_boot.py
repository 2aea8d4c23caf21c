# python -m pytest tests/test_boot.py
"""From settings to an engine: wishes beyond the model, and weights that cannot be kept."""

from pathlib import Path

import pytest

from dllama_py.errors import InputError
from dllama_py.transport.comm import SoloComm
from tests.checkpoints import own_folder
from tests.support.engines import engine_on


def test_wishes_beyond_the_model_are_cut_to_it(tmp_path: Path) -> None:
    with engine_on(SoloComm(), own_folder(tmp_path / "tiny"), context=10**30, chunk_rows=10**30) as engine:
        assert engine is not None
        assert (engine.runner.context, engine.runner.max_rows) == (512, 512)


def test_weights_that_are_no_numbers_are_named(tmp_path: Path) -> None:
    folder = own_folder(tmp_path / "tiny", distinct=True)
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-4] + b"\xff\x7f\xff\x7f")
    with pytest.raises(InputError, match=r"tiny: layers\.1\.down holds a value that is infinite or not a number"):
        engine_on(SoloComm(), folder).__enter__()


def test_weights_that_hide_between_the_ends_are_named_while_they_are_loaded(tmp_path: Path) -> None:
    folder = own_folder(tmp_path / "tiny", distinct=True)
    weights = folder / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[:-40_000] + b"\xff\x7f" + data[-39_998:])
    with pytest.raises(InputError, match=r"tiny: layers\.1\.down holds a value that is infinite, not a number"):
        engine_on(SoloComm(), folder).__enter__()
