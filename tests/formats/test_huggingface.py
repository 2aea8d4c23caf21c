# python -m pytest tests/formats/test_huggingface.py
"""Hugging Face folders: configs old and new, heads tied and untied, shards and their index."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from dllama_py.blocks import FloatType, dequantize, widen_bf16
from dllama_py.config import RopeScaling
from dllama_py.errors import InputError
from dllama_py.formats.checkpoint import Checkpoint, embedding_rows, open_checkpoint
from dllama_py.formats.tensors import tensor_specs
from tests.checkpoints import NAMES, change_config, own_folder, tiny_folder
from tests.golden import make_tiny_hf

INDEX = "model.safetensors.index.json"
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
LLAMA3 = {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


def matrix(checkpoint: Checkpoint, name: str) -> np.ndarray:
    spec = next(spec for spec in tensor_specs(checkpoint.config) if spec.name == name)
    return dequantize(checkpoint.read(spec, 0, spec.matrix_shape[0]), checkpoint.float_type(spec))


def source(model: str, name: str) -> np.ndarray:
    return widen_bf16(make_tiny_hf.tensors(make_tiny_hf.MODELS[model])[name])


def save(path: Path, dtype: str = "F32", **tensors: np.ndarray) -> None:
    """A shard by hand; every array's bytes as they are."""
    header, offset = {}, 0
    for name, values in tensors.items():
        end = offset + values.nbytes
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(values.tobytes() for values in tensors.values()))


def load_file_bits(path: Path, name: str) -> np.ndarray:
    """The bf16 bits of one tensor, at least a matrix."""
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    entry = json.loads(data[8 : 8 + size])[name]
    start, stop = entry["data_offsets"]
    return np.atleast_2d(np.frombuffer(data[8 + size :][start:stop], np.uint16).reshape(entry["shape"]))


def edit_index(folder: Path, **weight_map: str | None) -> None:
    index = json.loads((folder / INDEX).read_text())
    changed = index["weight_map"] | weight_map
    index["weight_map"] = {name: shard for name, shard in changed.items() if shard is not None}
    (folder / INDEX).write_text(json.dumps(index))


def add_tensor(folder: Path, name: str, values: np.ndarray, dtype: str = "F32") -> None:
    save(folder / "more.safetensors", dtype, **{name: values})
    edit_index(folder, **{name: "more.safetensors"})


def refused(folder: Path, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        open_checkpoint(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", NAMES)
def test_every_tensor_has_the_shape_of_its_spec(tmp_path_factory, name):
    checkpoint = open_checkpoint(tiny_folder(tmp_path_factory, name))
    for spec in tensor_specs(checkpoint.config):
        rows, columns = spec.matrix_shape
        assert checkpoint.float_type(spec) is FloatType.BF16
        assert checkpoint.read(spec, 0, rows).shape == (rows, 2 * columns)


def test_q_and_k_of_llama_are_turned_to_adjacent_pairs(tmp_path_factory):
    checkpoint = open_checkpoint(tiny_folder(tmp_path_factory, "tiny-llama"))  # heads of 16
    q, k, v = (matrix(checkpoint, f"layers.1.{role}") for role in "qkv")
    theirs = {role: source("tiny-llama", f"model.layers.1.self_attn.{role}_proj.weight") for role in "qkv"}
    np.testing.assert_array_equal(q[[0, 1, 2, 3, 14, 15, 16, 17]], theirs["q"][[0, 8, 1, 9, 7, 15, 16, 24]])
    np.testing.assert_array_equal(k[[48, 49, 63]], theirs["k"][[48, 56, 63]])
    np.testing.assert_array_equal(v, theirs["v"])


def test_a_run_of_turned_rows_is_that_run_of_the_whole(tmp_path_factory):
    checkpoint = open_checkpoint(tiny_folder(tmp_path_factory, "tiny-llama31"))
    spec = next(spec for spec in tensor_specs(checkpoint.config) if spec.role == "q")
    whole = checkpoint.read(spec, 0, 256)
    for start, stop in ((0, 1), (31, 33), (5, 200), (255, 256)):
        np.testing.assert_array_equal(checkpoint.read(spec, start, stop), whole[start:stop])


@pytest.mark.parametrize(
    ("role", "name"),
    [
        ("embedding", "model.embed_tokens.weight"),
        ("layers.1.o", "model.layers.1.self_attn.o_proj.weight"),
        ("layers.0.router", "model.layers.0.mlp.gate.weight"),
        ("layers.0.experts.7.gate", "model.layers.0.mlp.experts.7.gate_proj.weight"),
        ("layers.0.experts.7.up", "model.layers.0.mlp.experts.7.up_proj.weight"),
        ("layers.1.experts.6.down", "model.layers.1.mlp.experts.6.down_proj.weight"),
        ("layers.1.k_norm", "model.layers.1.self_attn.k_norm.weight"),
        ("layers.1.attention_norm", "model.layers.1.input_layernorm.weight"),
        ("layers.1.ffn_norm", "model.layers.1.post_attention_layernorm.weight"),
        ("head", "lm_head.weight"),
    ],
)
def test_names_of_tensors(tmp_path, role, name):
    folder = own_folder(tmp_path / "a", "tiny-qwen3moe", distinct=True)
    theirs = load_file_bits(folder / "model.safetensors", name)
    np.testing.assert_array_equal(matrix(open_checkpoint(folder), role), widen_bf16(theirs))


def test_q_of_qwen3_stays_in_halves(tmp_path_factory):
    checkpoint = open_checkpoint(tiny_folder(tmp_path_factory, "tiny-qwen3"))
    np.testing.assert_array_equal(
        matrix(checkpoint, "layers.0.q"), source("tiny-qwen3", "model.layers.0.self_attn.q_proj.weight")
    )


@pytest.mark.parametrize(("dtype", "kind"), [("F32", np.float32), ("F16", np.float16)])
def test_other_float_types(tmp_path, dtype, kind):
    folder = own_folder(tmp_path / "a")
    values = (np.arange(128, dtype=np.float32) / 128).astype(kind)
    add_tensor(folder, "model.norm.weight", values, dtype)
    np.testing.assert_array_equal(matrix(open_checkpoint(folder), "final_norm"), values.astype(np.float32)[None])


def test_bf16_bytes_need_no_torch(tmp_path):
    folder = own_folder(tmp_path / "a")
    bits = np.array([0x3F80, 0xBF80, 0x4049, 0x7F80, 0x0001, 0x8000] + [0] * 122, np.uint16)
    add_tensor(folder, "model.norm.weight", bits, "BF16")
    row = matrix(open_checkpoint(folder), "final_norm")[0]
    assert row[:4].tolist() == [1.0, -1.0, 3.140625, np.inf]
    assert row[4] == np.float32(9.18355e-41) and np.signbit(row[5]) and row[5] == 0


# Heads


def test_a_tied_head_is_the_embedding(tmp_path_factory):
    checkpoint = open_checkpoint(tiny_folder(tmp_path_factory, "tiny-qwen3"))  # flag true, no lm_head
    np.testing.assert_array_equal(matrix(checkpoint, "head"), embedding_rows(checkpoint, range(320)))


def test_a_head_in_the_file_is_used_whatever_the_flag_says(tmp_path):
    folder = own_folder(tmp_path / "a")
    change_config(folder, tie_word_embeddings=True)
    np.testing.assert_array_equal(matrix(open_checkpoint(folder), "head"), source("tiny-llama", "lm_head.weight"))


def test_no_head_and_no_tie_is_an_incomplete_download(tmp_path):
    folder = own_folder(tmp_path / "a", "tiny-qwen3")
    change_config(folder, tie_word_embeddings=False)
    refused(folder, "lm_head.weight is missing, though config.json says tie_word_embeddings false")


def test_no_head_and_no_flag_is_tied(tmp_path):
    folder = own_folder(tmp_path / "a", "tiny-qwen3")
    change_config(folder, "tie_word_embeddings")
    assert open_checkpoint(folder).config.vocab_size == 320


# Shards


def test_a_shard_that_is_gone(tmp_path):
    folder = own_folder(tmp_path / "a")
    (folder / SECOND).unlink()
    refused(folder, f"{SECOND}: the shard is missing, {INDEX} names it")


def test_a_shard_that_lacks_what_the_index_says(tmp_path):
    folder = own_folder(tmp_path / "a")
    edit_index(folder, **{"model.norm.weight": SECOND})
    refused(folder, f"says model.norm.weight is in {SECOND}, but that shard lacks it")


def test_a_file_beside_the_shards_is_left_alone(tmp_path):
    folder = own_folder(tmp_path / "a")
    save(folder / "model.safetensors", **{"model.norm.weight": np.zeros(128, np.float32)})
    checkpoint = open_checkpoint(folder)
    assert checkpoint.notes == (f"{folder}: model.safetensors left alone, not part of the checkpoint",)
    assert matrix(checkpoint, "final_norm").all()


def test_disjoint_shards_need_no_index(tmp_path):
    folder = own_folder(tmp_path / "a")
    (folder / INDEX).unlink()
    assert open_checkpoint(folder).notes == ()


def test_shards_that_overlap_need_an_index(tmp_path):
    folder = own_folder(tmp_path / "a")
    (folder / INDEX).unlink()
    save(folder / "zz.safetensors", **{"model.norm.weight": np.zeros(128, np.float32)})
    refused(folder, f"model.norm.weight is in both {FIRST} and zz.safetensors and there is no {INDEX}")


def test_an_index_that_points_elsewhere(tmp_path):
    folder = own_folder(tmp_path / "a")
    edit_index(folder, **{"model.norm.weight": "../b.safetensors"})
    refused(folder, "names the shard '../b.safetensors', expected a plain file name")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"weight_map": {}}', '{"weight_map": {"a": 1}}', ""])
def test_an_index_that_is_none(tmp_path, text):
    folder = own_folder(tmp_path / "a")
    (folder / INDEX).write_text(text)
    refused(folder, INDEX)


def test_a_shard_that_is_a_pointer(tmp_path):
    folder = own_folder(tmp_path / "a")
    (folder / FIRST).write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n")
    refused(folder, f"{FIRST}: is a Git LFS pointer")


def test_a_shard_cut_anywhere_is_refused(tmp_path):
    folder = own_folder(tmp_path / "a")
    whole = (folder / SECOND).read_bytes()
    for length in [*range(64), *range(64, len(whole), 9973), len(whole) - 1]:
        (folder / SECOND).write_bytes(whole[:length])
        refused(folder, SECOND)


def test_a_folder_without_shards_or_config(tmp_path):
    refused(tmp_path, "has no config.json")
    (tmp_path / "config.json").write_text(json.dumps(make_tiny_hf.MODELS["tiny-llama"]))
    refused(tmp_path, "has no .safetensors file")


# Tensors that do not fit


def test_a_missing_tensor_is_named(tmp_path):
    folder = own_folder(tmp_path / "a")
    edit_index(folder, **{"model.layers.1.mlp.up_proj.weight": None})
    refused(folder, "tensor model.layers.1.mlp.up_proj.weight is missing")


@pytest.mark.parametrize("name", ["model.layers.0.self_attn.q_proj.bias", "model.layers.1.mlp.down_proj.bias"])
def test_biases_are_refused_by_name(tmp_path, name):
    folder = own_folder(tmp_path / "a")
    add_tensor(folder, name, np.zeros(128, np.float32))
    refused(folder, f"{name} are no part of a llama model of 2 layers; biases are not computed")


def test_an_unknown_tensor_is_refused_by_name(tmp_path):
    folder = own_folder(tmp_path / "a")
    add_tensor(folder, "model.layers.0.self_attn.q_proj.weight.scale", np.zeros(1, np.float32))
    refused(folder, "q_proj.weight.scale are no part of a llama model")


def test_tables_of_old_checkpoints_are_harmless(tmp_path):
    folder = own_folder(tmp_path / "a")
    add_tensor(folder, "model.layers.0.self_attn.rotary_emb.inv_freq", np.zeros(8, np.float32))
    assert open_checkpoint(folder).config.width == 128


def test_a_type_that_cannot_be_read(tmp_path):
    folder = own_folder(tmp_path / "a")
    add_tensor(folder, "model.norm.weight", np.zeros(128, np.uint8), "F8_E4M3")
    refused(folder, "model.norm.weight has type F8_E4M3, which cannot be read; BF16, F16, F32 can")


def test_head_dim_is_obeyed(tmp_path):
    folder = own_folder(tmp_path / "a", num_attention_heads=4, head_dim=64)  # q has 256 rows, 128 / 4 is 32
    assert open_checkpoint(folder).config.head_width == 64
    change_config(folder, "head_dim")
    refused(folder, r"q_proj.weight has shape \[256, 128\], config.json makes it \[128, 128\] \(4 heads of 32")


def test_without_head_dim_it_is_width_by_heads(tmp_path):
    folder = own_folder(tmp_path / "a")
    change_config(folder, "head_dim")
    checkpoint = open_checkpoint(folder)
    assert (checkpoint.config.head_width, checkpoint.omitted) == (16, {"head_width"})


# RoPE


def test_the_base_in_its_nested_place(tmp_path):
    folder = own_folder(tmp_path / "a")
    change_config(folder, "rope_theta", rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
    nested = open_checkpoint(folder)
    change_config(folder, "rope_parameters", rope_theta=500000.0)
    assert nested.config.rope_theta == 500000.0
    assert (nested.config, nested.omitted) == (open_checkpoint(folder).config, open_checkpoint(folder).omitted)


def test_no_base_is_10000_for_llama_and_an_error_for_qwen3(tmp_path):
    folder = own_folder(tmp_path / "a")
    change_config(folder, "rope_theta")
    assert (open_checkpoint(folder).config.rope_theta, open_checkpoint(folder).omitted) == (10000.0, {"rope_theta"})
    folder = own_folder(tmp_path / "b", "tiny-qwen3")
    change_config(folder, "rope_theta")
    refused(folder, "rope_theta is missing, expected the RoPE base")


def test_two_bases_that_differ(tmp_path):
    folder = own_folder(tmp_path / "a")
    change_config(folder, rope_parameters={"rope_type": "default", "rope_theta": 500000.0})
    refused(folder, "rope_theta is 10000.0, expected the same as in rope_parameters, 500000.0")


@pytest.mark.parametrize(
    "entries",
    [
        {"rope_scaling": {"rope_type": "llama3", **LLAMA3}},
        {"rope_scaling": {"type": "llama3", **LLAMA3}},
        {"rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0, **LLAMA3}},
    ],
)
def test_llama3_scaling_in_all_its_places(tmp_path, entries):
    folder = own_folder(tmp_path / "a")
    change_config(folder, **entries)
    assert open_checkpoint(folder).config.rope_scaling == RopeScaling(32.0, 1.0, 4.0, 8192)


def test_llama3_scaling_of_frequencies():
    factors = [1 / divisor for divisor in RopeScaling(32.0, 1.0, 4.0, 8192).divisors(500000.0, 64)]
    assert factors[:15] == [1.0] * 15
    assert [round(factor, 6) for factor in factors[15:18]] == [0.605573, 0.303743, 0.103448]
    assert factors[18:] == [1 / 32] * 14


@pytest.mark.parametrize(
    ("scaling", "message"),
    [
        ({"rope_type": "foo", "factor": 4.0}, "RoPE scaling 'foo' is not supported; 'default' and 'llama3' are"),
        ({"type": "yarn", "factor": 4.0}, "RoPE scaling 'yarn' is not supported"),
        ({"factor": 4.0}, "RoPE scaling 'missing' is not supported"),
        ({"rope_type": "llama3", "factor": 4.0}, "low_freq_factor is missing, expected a number"),
        ({"full_attention": {"rope_type": "default"}}, r"RoPE scaling per layer kind \(full_attention\)"),
        ({"rope_type": "default", "partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5, expected 1"),
    ],
)
def test_scalings_that_are_not_computed(tmp_path, scaling, message):
    folder = own_folder(tmp_path / "a")
    change_config(folder, rope_scaling=scaling)
    refused(folder, message)


# Other entries


def test_mistral_is_llama_within_its_window(tmp_path):
    folder = own_folder(tmp_path / "a", model_type="mistral", sliding_window=64)
    assert open_checkpoint(folder).config.context_length == 64
    change_config(folder, sliding_window=None)
    assert open_checkpoint(folder).config.context_length == 512


def test_a_window_that_is_switched_off(tmp_path):
    folder = own_folder(tmp_path / "a", "tiny-qwen3", sliding_window=64, use_sliding_window=False)
    assert open_checkpoint(folder).config.context_length == 512


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"model_type": "gemma3"}, "model_type 'gemma3' is not supported; llama, mistral, qwen3, qwen3_moe are"),
        ({"model_type": None}, "model_type 'missing' is not supported"),
        ({"hidden_act": "gelu"}, 'hidden_act is "gelu", expected silu'),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised by gptq, which cannot be read"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantised by fp8, which cannot be read"),
        ({"hidden_size": "128"}, 'hidden_size is "128", expected a whole number'),
        ({"hidden_size": None}, "hidden_size is null, expected a whole number"),
        ({"num_hidden_layers": 10**9}, "1000000000 layers of 0 experts cannot be"),
        ({"num_attention_heads": 0}, "heads 0"),
        ({"num_key_value_heads": 3}, "8 heads of width 16 over 3 key/value heads"),
        ({"rms_norm_eps": True}, "rms_norm_eps is true, expected a number"),
    ],
)
def test_configs_that_are_not_computed(tmp_path, entries, message):
    folder = own_folder(tmp_path / "a")
    change_config(folder, **entries)
    refused(folder, message)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"norm_topk_prob": False}, "norm_topk_prob is false, expected true"),
        ({"decoder_sparse_step": 2}, "decoder_sparse_step is 2, expected 1"),
        ({"mlp_only_layers": [0]}, r"mlp_only_layers is \[0\], expected an empty list"),
        ({"num_experts_per_tok": 9}, "9 active of 8 experts"),
    ],
)
def test_mixtures_that_are_not_computed(tmp_path, entries, message):
    folder = own_folder(tmp_path / "a", "tiny-qwen3moe")
    change_config(folder, **entries)
    refused(folder, message)
