# python -m pytest tests/formats/test_gguf.py
"""GGUF files: values against the gguf package, the table of roles, and what is refused."""

import hashlib
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from dllama_py.blocks import FloatType, dequantize
from dllama_py.config import Arch
from dllama_py.errors import InputError
from dllama_py.formats.checkpoint import Checkpoint, Embedding, open_checkpoint
from dllama_py.formats.tensors import TensorSpec, tensor_specs
from dllama_py.rope_scaling import LinearScaling, Llama3Scaling, YarnScaling, yarn_magnitude
from tests.checkpoints import add_gguf_tensor, finish_gguf, own_folder, tiny_gguf
from tests.gguf_models import add_fact


def values(checkpoint: Checkpoint, spec: TensorSpec) -> np.ndarray:
    return dequantize(checkpoint.read(spec, 0, spec.matrix_shape[0]), checkpoint.float_type(spec))


def spec_of(checkpoint: Checkpoint, name: str) -> TensorSpec:
    return next(spec for spec in tensor_specs(checkpoint.config) if spec.name == name)


def oracle(path: Path, name: str, expert: int | None = None) -> np.ndarray:
    tensor = next(tensor for tensor in gguf.GGUFReader(path).tensors if tensor.name == name)
    widened = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
    return np.atleast_2d(widened if expert is None else widened[expert])


@pytest.mark.parametrize("kind", ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q8_0", "Q6_K", "IQ2_XXS", "IQ4_NL", "MXFP4"])
def test_matrices_are_what_the_gguf_package_reads(tmp_path, kind):
    wide = {"hidden_size": 256, "intermediate_size": 256, "head_dim": 32, "num_hidden_layers": 1}
    path = tiny_gguf(tmp_path / "a", kind=kind, distinct=True, **wide)
    checkpoint = open_checkpoint(path)
    names = {"embedding": "token_embd", "layers.0.q": "blk.0.attn_q", "layers.0.down": "blk.0.ffn_down"}
    names |= {"head": "output", "layers.0.ffn_norm": "blk.0.ffn_norm", "final_norm": "output_norm"}
    for role, name in names.items():
        np.testing.assert_array_equal(values(checkpoint, spec_of(checkpoint, role)), oracle(path, f"{name}.weight"))


def test_experts_lie_in_stacks(tmp_path):
    path = tiny_gguf(tmp_path / "a", "tiny-qwen3moe", "Q8_0", distinct=True)
    checkpoint = open_checkpoint(path)
    config = checkpoint.config
    assert (config.arch, config.n_experts, config.n_active_experts, config.expert_width) == (Arch.QWEN3_MOE, 8, 2, 128)
    for expert in (0, 7):
        for role in ("gate", "down", "up"):
            found = values(checkpoint, spec_of(checkpoint, f"layers.1.experts.{expert}.{role}"))
            np.testing.assert_array_equal(found, oracle(path, f"blk.1.ffn_{role}_exps.weight", expert))


@pytest.mark.parametrize("name", ["tiny-llama", "tiny-llama31", "tiny-qwen3", "tiny-qwen3moe"])
def test_a_file_holds_the_values_of_the_folder_it_was_made_from(tmp_path, name):
    file = open_checkpoint(tiny_gguf(tmp_path / "a", name, "BF16", distinct=True))
    folder = open_checkpoint(own_folder(tmp_path / "b", name, distinct=True))
    for spec in tensor_specs(folder.config):
        np.testing.assert_array_equal(values(file, spec), values(folder, spec), err_msg=spec.name)


def test_facts(tmp_path):
    config = open_checkpoint(tiny_gguf(tmp_path / "a", "tiny-qwen3")).config
    assert (config.arch, config.width, config.n_layers, config.n_heads, config.n_kv_heads) == (Arch.QWEN3, 128, 2, 8, 4)
    assert (config.head_width, config.ffn_width, config.vocab_size, config.context_length) == (32, 256, 320, 512)
    assert (config.norm_epsilon, config.rope_theta, config.rope_scaling, config.rope_factors) == (1e-6, 1e6, None, None)


def test_facts_of_mixtures(tmp_path):
    mixtral = open_checkpoint(tiny_gguf(tmp_path / "a", "tiny-mixtral")).config
    assert (mixtral.arch, mixtral.n_experts, mixtral.n_active_experts) == (Arch.MIXTRAL, 8, 2)
    assert (mixtral.expert_width, mixtral.shared_width, mixtral.weighs_all_experts) == (256, 0, False)
    qwen2 = open_checkpoint(tiny_gguf(tmp_path / "b", "tiny-qwen2moe")).config
    assert (qwen2.arch, qwen2.n_experts, qwen2.n_active_experts, qwen2.has_qkv_bias) == (Arch.QWEN2_MOE, 12, 4, True)
    assert (qwen2.expert_width, qwen2.shared_width, qwen2.weighs_all_experts) == (64, 160, True)


@pytest.mark.parametrize(
    ("facts", "scaling"),
    [
        ({"rope__scaling__type": "none", "rope__scaling__factor": 4.0}, None),
        ({"rope__scaling__factor": 4.0}, LinearScaling(4.0)),
        ({"rope__scale_linear": 4.0}, LinearScaling(4.0)),
        ({"rope__scaling__type": "linear", "rope__scaling__factor": 0.0}, None),
        ({"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0}, YarnScaling(4.0, 64, yarn_magnitude(4.0))),
        (
            {"rope__scaling__type": "yarn", "rope__scaling__factor": 4.0, "rope__scaling__attn_factor": 0.5}
            | {"rope__scaling__original_context_length": 16, "rope__scaling__yarn_beta_fast": 8.0},
            YarnScaling(4.0, 16, yarn_magnitude(4.0) * 0.5, beta_fast=8.0),
        ),
    ],
)
def test_rope_scalings(tmp_path, facts, scaling):
    add_tensors(small_file(tmp_path / "a", **facts))
    assert open_checkpoint(tmp_path / "a").config.rope_scaling == scaling


def test_biases_of_a_llama_model(tmp_path):
    biases = {f"blk__0__attn_{role}__bias": (32,) for role in ("q", "k", "v", "output")}
    add_tensors(small_file(tmp_path / "a"), **biases)
    config = open_checkpoint(tmp_path / "a").config
    assert (config.has_qkv_bias, config.has_o_bias) == (True, True)


def test_rope_factors_of_an_unknown_scaling_are_kept_as_they_are(tmp_path):
    config = open_checkpoint(tiny_gguf(tmp_path / "a", "tiny-llama31")).config  # original context 64
    assert config.rope_scaling is None
    assert config.rope_factors is not None and len(config.rope_factors) == 16
    assert config.rope_factors[0] == 1.0 and config.rope_factors[-1] == 32.0
    assert config == type(config).from_json(config.to_json())


def test_rope_factors_of_llama_3_2_become_its_scaling(tmp_path):
    scaling = {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    path = tiny_gguf(tmp_path / "a", "tiny-llama31", rope_scaling=scaling | {"original_max_position_embeddings": 8192})
    config = open_checkpoint(path).config
    assert config.rope_scaling == Llama3Scaling(32.0, 1.0, 4.0, 8192)
    assert config.rope_factors is None


def test_metadata_is_decoded_on_demand(tmp_path):
    metadata = open_checkpoint(tiny_gguf(tmp_path / "a")).metadata
    assert metadata["tokenizer.ggml.model"] == "gpt2"
    assert metadata["tokenizer.ggml.bos_token_id"] == 256
    assert metadata["tokenizer.ggml.add_bos_token"] is False
    assert metadata["tokenizer.ggml.tokens"][65:68] == ["A", "B", "C"]
    assert metadata["tokenizer.ggml.merges"] == ["t h", "h e"]
    assert metadata["tokenizer.ggml.token_type"].tolist() == [1] * 256 + [3] * 62 + [1] * 2
    assert "tokenizer.chat_template" not in metadata


def test_a_head_that_is_absent_is_the_embedding(tmp_path):
    checkpoint = open_checkpoint(tiny_gguf(tmp_path / "a", "tiny-qwen3", "Q8_0"))
    head, embedding = (values(checkpoint, spec_of(checkpoint, role)) for role in ("head", "embedding"))
    np.testing.assert_array_equal(head, embedding)


def test_a_head_of_another_type(tmp_path):
    path = tiny_gguf(tmp_path / "a", "tiny-llama", "Q4_0", "Q6_K", hidden_size=256)
    checkpoint = open_checkpoint(path)
    assert checkpoint.float_type(spec_of(checkpoint, "head")) is FloatType.Q6K
    assert checkpoint.float_type(spec_of(checkpoint, "layers.0.q")) is FloatType.Q40


def test_embedding_rows_are_read_one_by_one(tmp_path):
    path = tiny_gguf(tmp_path / "a", kind="Q4_1")
    np.testing.assert_array_equal(
        Embedding(open_checkpoint(path)).rows([300, 0, 300]), oracle(path, "token_embd.weight")[[300, 0, 300]]
    )


def small_file(path: Path, arch: str = "llama", **facts: object) -> gguf.GGUFWriter:
    """A writer with the facts of a model of width 32, one layer, one head; facts given replace or add."""
    writer = gguf.GGUFWriter(path, arch)
    sizes = {"context_length": 64, "embedding_length": 32, "block_count": 1, "feed_forward_length": 32}
    sizes |= {"attention.head_count": 1, "attention.layer_norm_rms_epsilon": 1e-5}
    for fact, value in (sizes | {key.replace("__", "."): value for key, value in facts.items()}).items():
        add_fact(writer, f"{arch}.{fact}", value)
    return writer


def add_tensors(writer: gguf.GGUFWriter, kind: Kind = Kind.F32, **more: tuple[int, ...]) -> None:
    matrix = (32, 32)
    shapes = {"token_embd": (40, 32), "output_norm": (32,), "blk.0.attn_norm": (32,), "blk.0.ffn_norm": (32,)}
    shapes |= {f"blk.0.{role}": matrix for role in ("attn_q", "attn_k", "attn_v", "attn_output")}
    shapes |= {f"blk.0.{role}": matrix for role in ("ffn_gate", "ffn_down", "ffn_up")}
    for name, shape in shapes.items():
        add_gguf_tensor(writer, f"{name}.weight", np.ones(shape, np.float32), kind if len(shape) > 1 else Kind.F32)
    for name, shape in more.items():
        add_gguf_tensor(writer, name.replace("__", "."), np.ones(shape, np.float32), Kind.F32)
    finish_gguf(writer)


def test_the_vocabulary_is_counted_where_no_key_says_it(tmp_path):
    add_tensors(small_file(tmp_path / "a"))
    checkpoint = open_checkpoint(tmp_path / "a")
    assert (checkpoint.config.vocab_size, checkpoint.config.head_width, checkpoint.config.n_kv_heads) == (40, 32, 1)
    assert checkpoint.omitted == {"head_width", "rope_theta"}


def test_one_value_for_each_layer_counts_if_all_are_the_same(tmp_path):
    add_tensors(small_file(tmp_path / "a", attention__head_count_kv=[1]))
    assert open_checkpoint(tmp_path / "a").config.n_kv_heads == 1


def test_a_window_shorter_than_the_context_limits_it(tmp_path):
    add_tensors(small_file(tmp_path / "a", attention__sliding_window=16))
    assert open_checkpoint(tmp_path / "a").config.context_length == 16


@pytest.mark.parametrize(
    ("facts", "tensors", "message"),
    [
        ({}, {"blk__0__ffn_up__bias": (32,)}, "blk.0.ffn_up.bias are no part of a llama model of 1 layers; nothing"),
        ({}, {"blk__0__attn_q__bias": (32,)}, "tensor blk.0.attn_k.bias is missing"),
        ({}, {"blk__0__attn_sinks__weight": (8,)}, "blk.0.attn_sinks.weight are no part"),
        ({}, {"blk__1__attn_norm__weight": (32,)}, "blk.1.attn_norm.weight are no part of a llama model of 1 layers"),
        ({}, {"rope_freqs__weight": (3,)}, "rope_freqs.weight must hold 16 positive numbers"),
        ({"block_count": 2}, {}, "tensor blk.1.attn_q.weight is missing"),
        ({"embedding_length": 64}, {}, r"token_embd.weight has shape \[40, 32\], the metadata makes it \[40, 64\]"),
        ({"expert_count": 8}, {}, "llama.expert_used_count is missing, expected a whole number"),
        ({"expert_count": 2, "expert_used_count": 1}, {}, "tensor blk.0.ffn_gate_inp.weight is missing"),
        ({"expert_weights_scale": 2.5}, {}, "llama.expert_weights_scale is 2.5, expected 1"),
        ({"expert_gating_func": 2}, {}, "llama.expert_gating_func is 2, expected 1, softmax"),
        ({"rope__dimension_count": 16}, {}, "llama.rope.dimension_count is 16, expected the head width 32"),
        ({"rope__scaling__type": "longrope", "rope__scaling__factor": 4.0}, {}, "type is longrope, expected none"),
        ({"rope__scaling__type": "yarn", "rope__scaling__factor": 0.5}, {}, "factor is 0.5, expected at least 1"),
        ({"rope__scaling__attn_factor": 1.5}, {}, "scaling.attn_factor is 1.5, expected 1 with scaling linear"),
        ({"attention__head_count_kv": [1, 2]}, {}, "llama.attention.head_count_kv is .* same for all layers"),
        ({"attention__head_count": 0}, {}, "heads 0"),
        ({"block_count": "two"}, {}, "llama.block_count is two, expected a whole number"),
        ({"attention__layer_norm_rms_epsilon": float("nan")}, {}, "norm epsilon nan"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_name(tmp_path, facts, tensors, message):
    add_tensors(small_file(tmp_path / "a", **facts), **tensors)
    with pytest.raises(InputError, match=message) as caught:
        open_checkpoint(tmp_path / "a")
    assert "\n" not in str(caught.value)


def test_another_architecture_is_refused_by_name(tmp_path):
    add_tensors(small_file(tmp_path / "a", "gemma2"))
    with pytest.raises(
        InputError,
        match="architecture 'gemma2' is not supported; llama, qwen2, qwen2moe, qwen3, qwen3moe, gemma3, gpt-oss are",
    ):
        open_checkpoint(tmp_path / "a")


def test_an_adapter_is_refused(tmp_path):
    writer = small_file(tmp_path / "a")
    writer.add_string("general.type", "adapter")
    add_tensors(writer)
    with pytest.raises(InputError, match="is of the type 'adapter', not a model"):
        open_checkpoint(tmp_path / "a")


@pytest.mark.parametrize("length", [0, 16, 32, 48])
def test_data_begin_where_the_alignment_says(tmp_path, length):
    writer = small_file(tmp_path / "a")
    writer.add_custom_alignment(64)
    writer.add_string("general.name", "x" * length)
    add_tensors(writer)
    checkpoint = open_checkpoint(tmp_path / "a")
    assert all((values(checkpoint, spec) == 1).all() for spec in tensor_specs(checkpoint.config))


def test_types_that_cannot_be_read_are_named_all_at_once(tmp_path):
    writer = small_file(tmp_path / "a")
    add_gguf_tensor(writer, "a", np.ones((2, 256), np.float32), Kind.TQ1_0)
    add_gguf_tensor(writer, "b", np.ones((2, 256), np.float32), Kind.TQ1_0)
    add_gguf_tensor(writer, "c", np.ones((2, 256), np.float32), Kind.TQ2_0)
    finish_gguf(writer)
    with pytest.raises(
        InputError, match=r"type TQ1_0 \(2 tensors\), TQ2_0 \(1 tensors\); F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1"
    ):
        open_checkpoint(tmp_path / "a")


def test_the_real_file(smollm2_gguf):
    checkpoint = open_checkpoint(smollm2_gguf)
    config = checkpoint.config
    assert (config.n_layers, config.n_heads, config.n_kv_heads, config.width, config.vocab_size) == (
        30,
        9,
        3,
        576,
        49152,
    )
    assert config.norm_epsilon == 1e-5 and config.rope_theta == 100000.0
    spec = spec_of(checkpoint, "layers.29.down")
    assert checkpoint.float_type(spec) is FloatType.Q41
    digest = hashlib.sha256(values(checkpoint, spec).tobytes()).hexdigest()  # once equal to the gguf package's
    assert digest == "c19605745425a11e704e305ce3d27b632c406195d39eb3377e9cfb140ac643d1"
    assert checkpoint.metadata["tokenizer.ggml.tokens"][1] == "<|im_start|>"
    assert Embedding(checkpoint).rows([49151]).shape == (1, 576)
