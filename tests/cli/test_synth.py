# python -m pytest tests/cli/test_synth.py
"""Mode synth: the file that it writes, what it says, and wrong requests."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dllama_py.blocks import FloatType
from dllama_py.cli import main
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.formats.shapes import shape_named
from dllama_py.formats.synthetic import SyntheticCheckpoint
from dllama_py.formats.tensors import tensor_specs


@pytest.mark.parametrize(("weights", "name"), [("q40", "a.m"), ("f32", "a.m"), ("q41", "a.gguf"), ("mxfp4", "a.gguf")])
def test_the_file_holds_the_random_weights_unchanged(tmp_path, capsys, weights, name):
    out = tmp_path / name
    assert main(["synth", "--shape", "smollm2_135m", "--weights", weights, "--layers", "1", str(out), "--json"]) == 0
    captured = capsys.readouterr()
    said = json.loads(captured.out)
    assert set(said) == {"path", "bytes", "seconds"} and captured.err == ""
    assert said["path"] == str(out) and said["bytes"] == out.stat().st_size
    written = open_checkpoint(out)
    made = SyntheticCheckpoint(shape_named("smollm2_135m", 1), FloatType.named(weights))
    assert replace(written.config, norm_epsilon=made.config.norm_epsilon) == made.config  # float32 in GGUF
    for spec in tensor_specs(made.config):
        assert written.float_type(spec) is made.float_type(spec)
        assert np.array_equal(written.read(spec, 0, spec.matrix_shape[0]), made.read(spec, 0, spec.matrix_shape[0]))


def test_without_json_it_says_where_the_file_is(tmp_path, capsys):
    out = tmp_path / "a.m"
    assert main(["synth", "--shape", "smollm2-135m", "--layers", "2", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    checkpoint = open_checkpoint(out)
    q = next(spec for spec in tensor_specs(checkpoint.config) if spec.role == "q")
    assert checkpoint.config.n_layers == 2 and checkpoint.float_type(q) is FloatType.Q40


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--shape", "gpt2", "OUT"], "no shape 'gpt2' is known; known are smollm2_135m, "),
        (["OUT"], "the following arguments are required: --shape"),
        (["--shape", "qwen3_8b", "--layers", "37", "OUT"], "37 layers of qwen3_8b are wanted, it has 36"),
        (["--shape", "qwen3_8b", "--layers", "none", "OUT"], "'none' is not a whole number above 0"),
        (["--shape", "qwen3_8b", "--weights", "q41", "OUT"], "q41 is no weights type of a .m file"),
        (["--shape", "smollm2_135m", "--weights", "q4_k", "OUT"], "rows of 576, which are not whole q4_k blocks"),
        (["--shape", "qwen3_8b", "a.bin"], "a.bin: is not the name of a .m or .gguf file in a folder that exists"),
        (["--shape", "qwen3_8b", "no/such/a.m"], "no/such/a.m: is not the name of a .m or .gguf file in a folder that"),
    ],
)
def test_errors_are_one_line_and_exit_with_2(tmp_path, capsys, arguments, message):
    out = str(tmp_path / "a.m")
    assert main(["synth", *[out if word == "OUT" else word for word in arguments]]) == 2
    error = capsys.readouterr().err
    assert message in error and error.startswith("error: ") and error.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
