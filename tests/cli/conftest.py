"""A clone for launch.py, and a hub on this machine that it may ask."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.checkpoints import tiny_folder
from tests.support.hub import FakeHub, running
from tests.support.launching import CLONE, MODEL, QWEN, TOKENIZER


@pytest.fixture
def fake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FakeHub]:
    folder = tiny_folder(tmp_path_factory, "tiny-llama")
    content = {
        QWEN: {
            "dllama_model_qwen3_14b_q40_aa": MODEL[:30_000],
            "dllama_model_qwen3_14b_q40_ab": MODEL[30_000:],
            "dllama_tokenizer_qwen3_14b.t": TOKENIZER,
        },
        "me/tiny": {path.name: path.read_bytes() for path in folder.iterdir()},
        "me/empty": {"m-Q8_0.gguf": b""},
        "me/ggufs": {"m-F16-00001-of-00002.gguf": MODEL, "m-F16-00002-of-00002.gguf": MODEL, "m-Q8_0.gguf": MODEL},
        "bartowski/DeepSeek-R1-Distill-Qwen-14B-GGUF": {"DeepSeek-R1-Distill-Qwen-14B-Q4_K_M.gguf": MODEL},
    }
    with running(FakeHub(content)) as hub:
        yield hub


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    folder = tmp_path / "a clone"
    folder.mkdir()
    shutil.copy(CLONE / "launch.py", folder)
    return folder
