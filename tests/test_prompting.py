# python -m pytest tests/test_prompting.py
"""Which tokenizer belongs to a model, and that a model without one may do without."""

from pathlib import Path

import gguf
import pytest

from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.prompting import need_text, open_text
from tests import checkpoints
from tests.checkpoints import own_folder, tiny_gguf, tiny_model_file


def test_models_without_a_tokenizer_have_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(writer: gguf.GGUFWriter, vocab_size: int) -> None:
        """A GGUF file of weights alone."""

    monkeypatch.setattr(checkpoints, "_add_tokenizer", forget)
    for model in (own_folder(tmp_path / "folder"), tiny_model_file(tmp_path / "a.m"), tiny_gguf(tmp_path / "a.gguf")):
        assert open_text(open_checkpoint(model), None) is None


def test_a_text_prompt_needs_one() -> None:
    with pytest.raises(UsageError, match="a text prompt needs a tokenizer and the model has none; give --tokenizer"):
        need_text(None, "a text prompt")
