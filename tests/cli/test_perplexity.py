# python -m pytest tests/cli/test_perplexity.py
"""Mode perplexity through its command line."""

import json
from pathlib import Path

import pytest

from dllama_py.cli import main
from tests.checkpoints import tiny_gguf, tiny_model_file

TEXT = "The capital of France is Paris. The capital of Italy is Rome. The capital of Spain is Madrid.\n"


def test_a_text_that_is_foreseen(smollm2_gguf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "text.txt"
    file.write_text(TEXT)
    command = ["perplexity", "--model", str(smollm2_gguf), "--file", str(file), "--nthreads", "1"]
    assert main([*command, "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts.keys() == {"perplexity", "tokens", "nats_per_token"}
    assert facts["tokens"] == 21 and 2 < facts["perplexity"] < 20
    assert main([*command, "--chunk", "5"]) == 0
    assert capsys.readouterr().out == f"perplexity {facts['perplexity']:.4f} over 21 tokens\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a", "has 1 tokens; expected at least 2"),
        (None, "text.txt: cannot be read: No such file or directory; give a text file"),
    ],
)
def test_refused(text: str | None, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if text is not None:
        (tmp_path / "text.txt").write_text(text)
    model = tiny_gguf(tmp_path / "a.gguf")
    assert main(["perplexity", "--model", str(model), "--file", str(tmp_path / "text.txt")]) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_a_model_without_tokenizer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    model = str(tiny_model_file(tmp_path / "a.m"))
    assert main(["perplexity", "--model", model, "--file", str(tmp_path / "text.txt")]) == 2
    assert "a text needs a tokenizer and the model has none" in capsys.readouterr().err
