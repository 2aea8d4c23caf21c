# python -m pytest tests/conversion/test_conversion.py
"""The converter: the bytes of the reference, blocks that go over unchanged, and failures that leave nothing behind."""

import errno
import hashlib
import json
import shutil
import tracemalloc
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from converter.__main__ import main
from dllama_py.blocks import FloatType, dequantize, quantize
from dllama_py.conversion import convert_model, model_file_name
from dllama_py.errors import InputError, UsageError
from dllama_py.formats.checkpoint import Checkpoint, open_checkpoint
from dllama_py.formats.tensors import TensorSpec, tensor_specs
from dllama_py.rope_scaling import Llama3Scaling
from tests.checkpoints import NAMES, change_config, own_folder, tiny_folder, tiny_gguf, tiny_model_file

GOLDEN = json.loads((Path(__file__).parent.parent / "golden" / "tiny.json").read_text())["models"]
WEIGHTS = ["q40", "q80", "f16", "f32"]


def quietly(*_: object) -> None:
    pass


def raw(checkpoint: Checkpoint, spec: TensorSpec) -> np.ndarray:
    return checkpoint.read(spec, 0, spec.matrix_shape[0])


def values(checkpoint: Checkpoint, spec: TensorSpec) -> np.ndarray:
    return dequantize(raw(checkpoint, spec), checkpoint.float_type(spec))


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_are_those_of_the_reference_converter(tmp_path, tmp_path_factory, name, weights):
    out = tmp_path / model_file_name(name, FloatType.named(weights))
    convert_model(open_checkpoint(tiny_folder(tmp_path_factory, name)), FloatType.named(weights), out, quietly)
    assert hashlib.sha256(out.read_bytes()).hexdigest() == GOLDEN[name]["sha256"][weights]


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", NAMES)
def test_reading_and_writing_again_gives_the_same_bytes(tmp_path, name, weights):
    first = tiny_model_file(tmp_path / "a.m", name, FloatType.named(weights))
    convert_model(open_checkpoint(first), FloatType.named(weights), tmp_path / "b.m", quietly)
    assert (tmp_path / "b.m").read_bytes() == first.read_bytes()


def test_what_a_config_does_not_state_gets_no_pair(tmp_path):
    folder = own_folder(tmp_path / "a")
    change_config(folder, "head_dim", "rms_norm_eps", "rope_theta")
    for source, out in ((folder, tmp_path / "b.m"), (tmp_path / "b.m", tmp_path / "c.m")):
        convert_model(open_checkpoint(source), FloatType.Q40, out, quietly)
        assert out.read_bytes()[4] == 8 + 8 * 13
        assert open_checkpoint(out).config == open_checkpoint(folder).config


@pytest.mark.parametrize("name", NAMES)
def test_a_folder_and_its_file_hold_the_same_values(tmp_path, name):
    file = open_checkpoint(tiny_model_file(tmp_path / "a.m", name, FloatType.F32, distinct=True))
    folder = open_checkpoint(tmp_path / "a.m.folder")
    assert file.config == folder.config
    for spec in tensor_specs(folder.config):
        np.testing.assert_array_equal(values(file, spec), values(folder, spec), err_msg=spec.name)


def test_a_matrix_longer_than_a_chunk_is_quantised_row_by_row(tmp_path, monkeypatch):
    monkeypatch.setattr("dllama_py.conversion._CHUNK_ELEMENTS", 300)  # two rows of 128
    monkeypatch.setattr("dllama_py.conversion._RELEASE_BYTES", 1000)
    assert (
        hashlib.sha256(tiny_model_file(tmp_path / "a.m").read_bytes()).hexdigest()
        == GOLDEN["tiny-llama"]["sha256"]["q40"]
    )


@pytest.mark.parametrize(("kind", "weights"), [("Q4_0", "q40"), ("Q8_0", "q80"), ("F16", "f16"), ("F32", "f32")])
@pytest.mark.parametrize("name", ["tiny-llama", "tiny-qwen3moe"])
def test_gguf_blocks_go_over_unchanged(tmp_path, name, kind, weights):
    source = open_checkpoint(tiny_gguf(tmp_path / "a.gguf", name, kind, distinct=True))
    convert_model(source, FloatType.named(weights), tmp_path / "a.m", quietly)
    result = open_checkpoint(tmp_path / "a.m")
    assert result.config == source.config
    for spec in tensor_specs(source.config):
        if spec.is_matrix:
            np.testing.assert_array_equal(raw(result, spec), raw(source, spec), err_msg=spec.name)
        else:
            np.testing.assert_array_equal(values(result, spec), values(source, spec), err_msg=spec.name)


@pytest.mark.parametrize("kind", ["Q4_1", "Q6_K", "BF16"])
def test_other_gguf_types_are_quantised_anew(tmp_path, kind):
    source = open_checkpoint(tiny_gguf(tmp_path / "a.gguf", kind=kind, hidden_size=256, head_dim=32))
    convert_model(source, FloatType.Q80, tmp_path / "a.m", quietly)
    result = open_checkpoint(tmp_path / "a.m")
    for spec in tensor_specs(source.config):
        expected = quantize(values(source, spec), FloatType.Q80 if spec.is_matrix else FloatType.F32)
        np.testing.assert_array_equal(raw(result, spec), expected, err_msg=spec.name)


def test_llama3_scaling_of_a_gguf_reaches_the_header(tmp_path):
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    scaling["original_max_position_embeddings"] = 8192
    source = open_checkpoint(tiny_gguf(tmp_path / "a.gguf", "tiny-llama31", rope_scaling=scaling))
    convert_model(source, FloatType.Q40, tmp_path / "a.m", quietly)
    assert open_checkpoint(tmp_path / "a.m").config.rope_scaling == Llama3Scaling(8.0, 1.0, 4.0, 8192)


@pytest.mark.parametrize("bits", [0x7F80, 0xFF80, 0x7FC0], ids=["inf", "-inf", "nan"])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_weights_that_are_not_finite_are_refused_by_name(tmp_path, bits, weights):
    folder = own_folder(tmp_path / "a")
    shard = folder / "model-00002-of-00002.safetensors"
    data = bytearray(shard.read_bytes())
    (header_bytes,) = np.frombuffer(data[:8], np.uint64)
    tensor = json.loads(data[8 : 8 + int(header_bytes)])["model.layers.1.mlp.down_proj.weight"]
    at = 8 + int(header_bytes) + tensor["data_offsets"][0] + 77 * 2
    data[at : at + 2] = bits.to_bytes(2, "little")
    shard.write_bytes(data)
    (tmp_path / "out").mkdir()
    with pytest.raises(InputError, match="tensor layers.1.down holds a value that is infinite, not a number"):
        convert_model(open_checkpoint(folder), FloatType.named(weights), tmp_path / "out" / "a.m", quietly)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_scale_that_is_not_finite_is_refused_by_name(tmp_path):
    path = tiny_gguf(tmp_path / "a.gguf", kind="Q8_0", distinct=True)
    checkpoint = open_checkpoint(path)
    data = bytearray(path.read_bytes())
    last = checkpoint.read(
        next(s for s in tensor_specs(checkpoint.config) if s.name == "layers.0.up"), 0, 256
    ).tobytes()
    at = data.find(last)
    data[at : at + 2] = b"\x00\x7c"
    path.write_bytes(data)
    with pytest.raises(InputError, match="tensor layers.0.up holds a scale that is infinite or not a number"):
        convert_model(open_checkpoint(path), FloatType.Q80, tmp_path / "a.m", quietly)


def test_memory_does_not_grow_with_the_largest_tensor(tmp_path):
    checkpoint = open_checkpoint(own_folder(tmp_path / "a", vocab_size=32000))  # embedding and head: 16 MB as f32
    tracemalloc.start()
    convert_model(checkpoint, FloatType.Q40, tmp_path / "a.m", quietly)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 8_000_000


# Failures on the way


def test_a_full_disk_leaves_nothing_behind(tmp_path, tmp_path_factory):
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    checkpoint = open_checkpoint(tiny_folder(tmp_path_factory, "tiny-llama"))
    with pytest.raises(UsageError, match="a.m: cannot be written: No space left on device"):
        convert_model(checkpoint, FloatType.Q40, tmp_path / "a.m", fail)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_is_too_small_is_seen_at_once(tmp_path, tmp_path_factory, monkeypatch):
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(free=1000))
    checkpoint = open_checkpoint(tiny_folder(tmp_path_factory, "tiny-llama"))
    with pytest.raises(UsageError, match="needs 3.* bytes, the disk has 1000 left"):
        convert_model(checkpoint, FloatType.Q40, tmp_path / "a.m", quietly)


def test_an_interruption_leaves_the_older_file(tmp_path, tmp_path_factory):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    (tmp_path / "a.m").write_bytes(b"older")
    with pytest.raises(KeyboardInterrupt):
        convert_model(
            open_checkpoint(tiny_folder(tmp_path_factory, "tiny-llama")), FloatType.Q40, tmp_path / "a.m", interrupt
        )
    assert [path.name for path in tmp_path.iterdir()] == ["a.m"]
    assert (tmp_path / "a.m").read_bytes() == b"older"


def test_a_width_that_is_not_whole_blocks(tmp_path):
    folder = own_folder(tmp_path / "a", head_dim=12)  # o has rows of 96, k and v too; 8 * 12 is whole, D is not
    convert_model(open_checkpoint(folder), FloatType.Q40, tmp_path / "a.m", quietly)
    folder = own_folder(tmp_path / "b", intermediate_size=240)
    with pytest.raises(InputError, match="layers.0.down has rows of 240 elements, q40 needs a multiple of 32"):
        convert_model(open_checkpoint(folder), FloatType.Q40, tmp_path / "b.m", quietly)
    convert_model(open_checkpoint(folder), FloatType.F16, tmp_path / "b.m", quietly)


def test_a_type_that_no_model_file_has(tmp_path, tmp_path_factory):
    with pytest.raises(UsageError, match="bf16 is no weights type of a .m file"):
        convert_model(
            open_checkpoint(tiny_folder(tmp_path_factory, "tiny-llama")), FloatType.BF16, tmp_path / "a.m", quietly
        )


# The command


def test_the_command_writes_into_the_current_folder(tmp_path, tmp_path_factory, monkeypatch, capsys):
    folder = tiny_folder(tmp_path_factory, "tiny-qwen3")
    monkeypatch.chdir(tmp_path)
    assert main(["model", str(folder), "q80", "tiny"]) == 0
    assert capsys.readouterr().out == "dllama_model_tiny_q80.m\n"
    assert (
        hashlib.sha256(Path("dllama_model_tiny_q80.m").read_bytes()).hexdigest()
        == GOLDEN["tiny-qwen3"]["sha256"]["q80"]
    )


def test_output_is_a_folder_or_a_file(tmp_path, tmp_path_factory):
    folder = str(tiny_folder(tmp_path_factory, "tiny-llama"))
    (tmp_path / "models").mkdir()
    assert main(["model", folder, "q40", "a", "--output", str(tmp_path / "models")]) == 0
    assert main(["model", folder, "q40", "a", "--output", str(tmp_path / "models" / "b.m")]) == 0
    assert sorted(path.name for path in (tmp_path / "models").iterdir()) == ["b.m", "dllama_model_a_q40.m"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.gguf", "q40", "a"], "there is no such file or folder"),
        (["nowhere", "q40", "a"], "no file or folder, and no fetched model"),
        (["FOLDER", "q40", "../a"], "NAME '../a' must be a plain name without folders"),
        (
            ["FOLDER", "q40", "a", "--output", "no/such/folder"],
            "neither a folder that exists nor the name of a .m file",
        ),
        (["FOLDER", "q40", "a", "--output", "no/such/folder/a.m"], "neither a folder that exists"),
    ],
)
def test_errors_are_one_line_and_exit_with_2(tmp_path_factory, capsys, arguments, message):
    folder = str(tiny_folder(tmp_path_factory, "tiny-llama"))
    assert main(["model", *[folder if word == "FOLDER" else word for word in arguments]]) == 2
    error = capsys.readouterr().err
    assert message in error and error.startswith("error: ") and error.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["model"], ["model", "a", "q41", "b"], ["nonsense"]])
def test_wrong_usage_is_one_line_and_exits_with_2(capsys, arguments):
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_source_is_never_overwritten(tmp_path, capsys):
    path = tiny_model_file(tmp_path / "a.m")
    before = path.read_bytes()
    assert main(["model", str(path), "q80", "a", "--output", str(path)]) == 2
    assert "is the source itself" in capsys.readouterr().err
    assert path.read_bytes() == before
