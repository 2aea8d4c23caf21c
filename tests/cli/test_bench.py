# python -m pytest tests/cli/test_bench.py
import json

import pytest

from dllama_py.cli import main

KEYS = {
    "decode_tok_s",
    "prefill_tok_s",
    "weight_bytes_per_token",
    "read_gb_s",
    "roofline",
    "gemm_gmac_s",
    "sync_ms_per_token",
    "python_ms_per_token",
    "load_s",
    "compile_s",
    "private_bytes",
}


def test_figures_of_a_cut_shape(capsys: pytest.CaptureFixture[str]) -> None:
    shape = ["--shape", "smollm2_135m", "--layers", "2", "--prompt-tokens", "5", "--steps", "4", "--nthreads", "1"]
    assert main(["bench", "--json", *shape]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    figures = json.loads(line)
    assert figures.keys() >= KEYS
    layer = 576 * 576 * 2 + 2 * 576 * 192 + 3 * 576 * 1536
    assert figures["weight_bytes_per_token"] == (2 * layer + 49152 * 576) * 18 // 32
    read = figures["weight_bytes_per_token"] * figures["decode_tok_s"] / figures["roofline"]
    assert read == pytest.approx(figures["read_gb_s"] * 1e9)
    assert figures["gemm_gmac_s"] == pytest.approx(2 * layer * figures["prefill_tok_s"] / 1e9)
    assert all(figures[key] > 0 for key in KEYS - {"sync_ms_per_token", "private_bytes"})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--shape", "gpt5"], ["gpt5", "qwen3_0.6b"]),
        (["--shape", "smollm2_135m", "--model", "a.m"], ["--shape", "--model"]),
        (["--layers", "2"], ["--layers", "--shape"]),
        (["--shape", "smollm2_135m", "--steps", "1"], ["--steps 1", "at least 2"]),
        (["--shape", "smollm2_135m", "--prompt-tokens", "4090"], ["4154 tokens", "--max-seq-len"]),
    ],
)
def test_what_cannot_be_measured(arguments: list[str], words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert [word for word in words if word not in line] == []
