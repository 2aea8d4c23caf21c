# python -m pytest tests/formats/test_huggingface.py
"""Hugging Face folders: configs old and new, heads tied and untied, shards and their index."""

import json
import struct
from pathlib import Path

import numpy as np
import pytest

from dllama_py.blocks import FloatType, widen_bf16
from dllama_py.formats import huggingface
from dllama_py.formats.checkpoint import Embedding, open_checkpoint
from dllama_py.formats.tensors import tensor_specs
from tests.checkpoints import NAMES, change_config, own_folder, tiny_folder
from tests.formats.spoiling import add_tensor, edit_index, matrix, refused
from tests.golden import make_tiny_hf


def source(model: str, name: str) -> np.ndarray:
    return widen_bf16(make_tiny_hf.tensors(make_tiny_hf.MODELS[model])[name])


def load_file_bits(path: Path, name: str) -> np.ndarray:
    """The bf16 bits of one tensor, at least a matrix."""
    data = path.read_bytes()
    (size,) = struct.unpack_from("<Q", data)
    entry = json.loads(data[8 : 8 + size])[name]
    start, stop = entry["data_offsets"]
    return np.atleast_2d(np.frombuffer(data[8 + size :][start:stop], np.uint16).reshape(entry["shape"]))


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


def test_a_tied_head_is_the_embedding(tmp_path_factory):
    checkpoint = open_checkpoint(tiny_folder(tmp_path_factory, "tiny-qwen3"))  # flag true, no lm_head
    np.testing.assert_array_equal(matrix(checkpoint, "head"), Embedding(checkpoint).rows(range(320)))


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


def test_a_missing_tensor_is_named(tmp_path):
    folder = own_folder(tmp_path / "a")
    edit_index(folder, **{"model.layers.1.mlp.up_proj.weight": None})
    refused(folder, "tensor model.layers.1.mlp.up_proj.weight is missing")


@pytest.mark.parametrize("name", ["model.layers.0.self_attn.q_proj.bias", "model.layers.1.mlp.down_proj.bias"])
def test_biases_are_refused_by_name(tmp_path, name):
    folder = own_folder(tmp_path / "a")
    add_tensor(folder, name, np.zeros(128, np.float32))
    refused(folder, f"{name} are no part of a llama model of 2 layers; nothing computes them")


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


EMBEDDING = "model.embed_tokens.weight"


def with_head(folder: Path, values: np.ndarray, dtype: str) -> Path:
    """A model whose config says that the head is the embedding, with a head beside it."""
    own_folder(folder, "tiny-qwen3")
    add_tensor(folder, "lm_head.weight", values, dtype)
    return folder


def embedding_bits() -> np.ndarray:
    return make_tiny_hf.tensors(make_tiny_hf.MODELS["tiny-qwen3"])[EMBEDDING].copy()


def test_a_stored_head_that_contradicts_the_flag_is_used_and_told(tmp_path, monkeypatch):
    """Also where only the last value of the last row differs."""
    monkeypatch.setattr(huggingface, "COMPARED_ELEMENTS", 1000)
    bits = embedding_bits()
    bits[-1, -1] ^= 1
    checkpoint = open_checkpoint(with_head(tmp_path / "a", bits, "BF16"))
    assert checkpoint.notes == (
        f"{tmp_path / 'a'}: lm_head.weight differs from the embedding, though config.json says tie_word_embeddings "
        "true; the stored lm_head.weight is used, as transformers 5 and llama.cpp do (transformers 4 used the "
        "embedding)",
    )
    assert not checkpoint.is_tied
    np.testing.assert_array_equal(matrix(checkpoint, "head"), widen_bf16(bits))


@pytest.mark.parametrize("dtype", ["BF16", "F32"])
def test_of_a_stored_head_that_is_the_embedding_nothing_is_said(tmp_path, dtype):
    bits = embedding_bits()
    values = bits if dtype == "BF16" else widen_bf16(bits.reshape(-1)).reshape(bits.shape)
    assert open_checkpoint(with_head(tmp_path / "a", values, dtype)).notes == ()


@pytest.mark.parametrize("flag", [False, None])
def test_of_a_stored_head_that_no_flag_contradicts_nothing_is_said(tmp_path, flag):
    folder = with_head(tmp_path / "a", embedding_bits()[::-1].copy(), "BF16")
    change_config(folder, tie_word_embeddings=flag)
    assert open_checkpoint(folder).notes == ()
