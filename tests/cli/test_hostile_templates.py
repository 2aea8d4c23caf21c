# python -m pytest tests/cli/test_hostile_templates.py
"""Chat templates that are broken or mean harm, through the real commands: one line, at once, in little memory."""

import json
from pathlib import Path
from typing import Any

import pytest

from dllama_py.formats.checkpoint import open_checkpoint
from tests.checkpoints import tiny_gguf
from tests.support.measured import measured

LOOP = "{% for i in range(1000000) %}" * 4 + "x" + "{% endfor %}" * 4
NEVER = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"

TEMPLATES: dict[str, tuple[Any, str]] = {
    "refuses": ("{{ raise_exception('no system role') }}", "the chat template refused: no system role"),
    "refuses, in a list": (
        [{"name": "default", "template": "{{ raise_exception('named') }}"}], "the chat template refused: named"),
    "is broken": ("{% if %}", "the chat template refused: Expected an expression"),
    "asks for what is not there": ("{{ foo.bar }}", "the chat template refused: 'foo' is undefined"),
    "is a number": (5, "the chat template 'default' is a int"),
    "writes without end": (LOOP, "the chat template "),
    "runs without end": (NEVER, "the chat template "),
    "wants much memory": ("{{ 'a' * 10000000000 }}", "the chat template "),
    "wants a large power": ("{{ 9**9**9 }}", "the operator ** is not allowed"),
    "leaves its box": ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "access to attribute '__class__'"),
}  # fmt: skip


def tokenizer_folder(folder: Path, model: Path, template: Any) -> Path:
    """The tiny model's vocabulary as tokenizer.json, with that template."""
    folder.mkdir()
    tokens = open_checkpoint(model).metadata["tokenizer.ggml.tokens"]
    bpe = {"type": "BPE", "vocab": {token: id for id, token in enumerate(tokens)}, "merges": [["t", "h"], ["h", "e"]]}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    facts = {"version": "1.0", "added_tokens": [], "pre_tokenizer": level, "decoder": level, "model": bpe}
    (folder / "tokenizer.json").write_text(json.dumps(facts))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template}))
    return folder


@pytest.mark.parametrize("mode", [["inference"], ["chat", "--prompt", "Hello"]], ids=lambda mode: mode[0])
def test_one_line_at_once(mode: list[str], tmp_path: Path) -> None:
    model = tiny_gguf(tmp_path / "tiny.gguf")
    commands = []
    for number, (template, _) in enumerate(TEMPLATES.values()):
        folder = tokenizer_folder(tmp_path / str(number), model, template)
        commands.append([*mode, "--model", str(model), "--tokenizer", str(folder)])
    for (name, (_, words)), done in zip(TEMPLATES.items(), measured(commands), strict=True):
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1), f"{name}: {done.err}"
        assert done.err.startswith("error: ") and words in done.err, name
        assert done.grown_bytes < 50_000_000, name
        assert done.seconds < 1, name
