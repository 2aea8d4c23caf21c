# python -m pytest tests/formats/test_huggingface_config.py
"""config.json: RoPE in its old and new places, windows, and models that are not computed."""

from pathlib import Path

import pytest

from dllama_py.config import Arch
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.formats.huggingface_config import read_config
from dllama_py.formats.tensors import tensor_specs
from dllama_py.rope_scaling import LinearScaling, Llama3Scaling, YarnScaling, yarn_magnitude
from dllama_py.sharding.plan import make_plan
from tests.checkpoints import change_config, own_folder
from tests.formats.spoiling import refused

LLAMA3 = {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}


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
    assert open_checkpoint(folder).config.rope_scaling == Llama3Scaling(32.0, 1.0, 4.0, 8192)


DEFAULT, LINEAR = {"rope_type": "default", "rope_theta": 10000.0}, {"type": "linear", "factor": 4.0}


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        (
            {"rope_parameters": DEFAULT, "rope_scaling": {"rope_type": "llama3", **LLAMA3}},
            Llama3Scaling(32, 1, 4, 8192),
        ),
        ({"rope_parameters": DEFAULT, "rope_scaling": LINEAR}, LinearScaling(4.0)),
        ({"rope_parameters": {**DEFAULT, **LINEAR, "rope_type": "linear"}, "rope_scaling": LINEAR}, LinearScaling(4.0)),
        ({"rope_parameters": {**LINEAR, "rope_theta": 10000.0}, "rope_scaling": {}}, LinearScaling(4.0)),
        ({"rope_parameters": {**LINEAR, "rope_theta": 10000.0}, "rope_scaling": None}, LinearScaling(4.0)),
    ],
)
@pytest.mark.parametrize("beside", [(), ("rope_theta",)])
def test_a_scaling_beside_rope_parameters_counts(tmp_path, entries, expected, beside):
    """What transformers 5.24 makes of these files, `rope_theta` beside them or not."""
    folder = own_folder(tmp_path / "a")
    change_config(folder, *beside, **entries)
    config = open_checkpoint(folder).config
    assert (config.rope_scaling, config.rope_theta) == (expected, 10000.0)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"rope_parameters": {**DEFAULT, **LINEAR, "rope_type": "linear", "factor": 2.0}, "rope_scaling": LINEAR},
            "rope_scaling is .*, expected the same",
        ),
        (
            {"rope_parameters": {**DEFAULT, **LINEAR, "rope_type": "linear"}, "rope_scaling": {"type": "default"}},
            "rope_scaling is .*only one of",
        ),
        (
            {"rope_parameters": {"rope_theta": 5e5}, "rope_scaling": LINEAR},
            "rope_theta is missing, expected 500000.0 as in",
        ),
        (
            {"rope_theta": 5e5, "rope_scaling": {"rope_theta": 4e5, **LINEAR}},
            "rope_theta is 500000.0, expected the same",
        ),
    ],
)
def test_scalings_and_bases_that_contradict_are_refused(tmp_path, entries, message):
    folder = own_folder(tmp_path / "a")
    change_config(folder, *({"rope_theta"} - set(entries)), **entries)
    refused(folder, message)


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        ({"type": "linear", "factor": 4.0}, LinearScaling(4.0)),
        ({"rope_type": "linear", "factor": 1.0}, None),
        ({"type": "yarn", "factor": 4.0}, YarnScaling(4.0, 512, yarn_magnitude(4.0))),
        (
            {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 256, "attention_factor": 1.5},
            YarnScaling(4.0, 256, 1.5),
        ),
        (
            {"rope_type": "yarn", "factor": 32.0, "beta_fast": 16, "beta_slow": 2, "truncate": False},
            YarnScaling(32.0, 512, yarn_magnitude(32.0), 16.0, 2.0, truncate=False),
        ),
        (
            {"rope_type": "yarn", "factor": 40.0, "mscale": 0.5, "mscale_all_dim": 2.0},
            YarnScaling(40.0, 512, yarn_magnitude(40.0, 0.5) / yarn_magnitude(40.0, 2.0)),
        ),
    ],
)
def test_linear_and_yarn_scaling(tmp_path, scaling, expected):
    folder = own_folder(tmp_path / "a", "tiny-qwen2")
    change_config(folder, rope_scaling=scaling)
    assert open_checkpoint(folder).config.rope_scaling == expected


def test_yarn_lengthens_the_context_that_the_config_has_kept(tmp_path):
    folder = own_folder(tmp_path / "a", "tiny-qwen2")
    yarn = {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 512}
    change_config(folder, rope_scaling=yarn)
    assert open_checkpoint(folder).config.context_length == 2048
    change_config(folder, rope_scaling=yarn, max_position_embeddings=4096)
    assert open_checkpoint(folder).config.context_length == 4096


def test_llama3_scaling_of_frequencies():
    factors = [float(1 / divisor) for divisor in Llama3Scaling(32.0, 1.0, 4.0, 8192).divisors(500000.0, 64)]
    assert factors[:15] == [1.0] * 15
    assert [round(factor, 6) for factor in factors[15:18]] == [0.605573, 0.303743, 0.103448]
    assert factors[18:] == [1 / 32] * 14


@pytest.mark.parametrize(
    ("scaling", "message"),
    [
        ({"rope_type": "foo", "factor": 4.0}, "'foo' is not supported; 'default', 'linear', 'llama3', 'yarn' are"),
        ({"type": "dynamic", "factor": 4.0}, "RoPE scaling 'dynamic' is not supported"),
        ({"type": "yarn", "factor": float("inf")}, "factor is Infinity, expected at least 1"),
        (
            {"type": "yarn", "factor": 2, "beta_fast": float("inf"), "beta_slow": 1},
            "beta_slow is 1, expected more than 0",
        ),
        ({"type": "yarn", "factor": 2, "original_max_position_embeddings": 10**400}, "beta_slow is missing"),
        ({"type": "yarn", "factor": 2, "mscale": float("nan")}, "mscale is NaN, expected like mscale_all_dim"),
        (
            {"rope_type": "llama3", **LLAMA3, "original_max_position_embeddings": 10**400},
            "expected a positive number of",
        ),
        ({"type": "linear"}, "factor is missing, expected a number"),
        ({"type": "yarn", "factor": 4.0, "beta_fast": 1}, "beta_slow is missing, expected more than 0 and less"),
        ({"type": "yarn", "factor": 4.0, "attention_factor": -1}, "attention_factor is -1, expected a positive number"),
        ({"factor": 4.0}, "RoPE scaling 'missing' is not supported"),
        ({"rope_type": "llama3", **LLAMA3, "factor": 0.5}, "factor is 0.5, expected at least 1"),
        ({"rope_type": "llama3", "factor": 4.0}, "low_freq_factor is missing, expected a number"),
        ({"full_attention": {"rope_type": "default"}}, r"RoPE scaling per layer kind \(full_attention\)"),
        ({"rope_type": "default", "partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5, expected 1"),
    ],
)
def test_scalings_that_are_not_computed(tmp_path, scaling, message):
    folder = own_folder(tmp_path / "a")
    change_config(folder, rope_scaling=scaling)
    refused(folder, message)


def test_biases_are_those_that_the_architecture_or_the_config_asks_for(tmp_path):
    def biases(name, **entries):
        config = open_checkpoint(own_folder(tmp_path / f"{name}{len(entries)}", name, **entries)).config
        return config.has_qkv_bias, config.has_o_bias

    assert biases("tiny-qwen2") == (True, False)
    assert biases("tiny-llama") == (False, False)
    assert biases("tiny-biased-llama") == (True, True)


def test_qwen2_without_its_biases(tmp_path):
    folder = own_folder(tmp_path / "a")
    change_config(folder, model_type="qwen2")
    refused(folder, "tensor model.layers.0.self_attn.q_proj.bias is missing")


def test_mixtures_in_the_words_of_each_architecture(tmp_path):
    mixtral = open_checkpoint(own_folder(tmp_path / "a", "tiny-mixtral")).config
    assert (mixtral.arch, mixtral.n_experts, mixtral.n_active_experts) == (Arch.MIXTRAL, 8, 2)
    assert (mixtral.expert_width, mixtral.shared_width, mixtral.weighs_all_experts) == (256, 0, False)
    qwen2 = open_checkpoint(own_folder(tmp_path / "b", "tiny-qwen2moe")).config
    assert (qwen2.arch, qwen2.n_experts, qwen2.n_active_experts) == (Arch.QWEN2_MOE, 12, 4)
    assert (qwen2.expert_width, qwen2.shared_width, qwen2.weighs_all_experts) == (64, 160, True)


@pytest.mark.parametrize(
    ("entries", "weighs_all"), [({"norm_topk_prob": True}, False), ({"norm_topk_prob": None}, True)]
)
def test_whether_chosen_weights_are_made_to_sum_to_one(tmp_path, entries, weighs_all):
    for name in ("tiny-qwen2moe", "tiny-qwen3moe"):
        folder = own_folder(tmp_path / name, name, **entries)
        assert open_checkpoint(folder).config.weighs_all_experts is weighs_all


REAL = {
    "Mixtral-8x7B-Instruct-v0.1": {
        "model_type": "mixtral", "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 14336,
        "max_position_embeddings": 32768, "num_attention_heads": 32, "num_experts_per_tok": 2,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 8, "rms_norm_eps": 1e-05,
        "rope_theta": 1000000.0, "sliding_window": None, "tie_word_embeddings": False, "vocab_size": 32000,
    },
    "DeepSeek-R1-Distill-Qwen-7B": {
        "model_type": "qwen2", "hidden_act": "silu", "hidden_size": 3584, "intermediate_size": 18944,
        "max_position_embeddings": 131072, "max_window_layers": 28, "num_attention_heads": 28,
        "num_hidden_layers": 28, "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_theta": 10000,
        "sliding_window": 4096, "tie_word_embeddings": False, "use_mrope": False, "use_sliding_window": False,
        "vocab_size": 152064,
    },
    "Qwen1.5-MoE-A2.7B": {
        "model_type": "qwen2_moe", "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 5632,
        "max_position_embeddings": 8192, "max_window_layers": 21, "num_attention_heads": 16, "num_hidden_layers": 24,
        "num_key_value_heads": 16, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768,
        "tie_word_embeddings": False, "use_sliding_window": False, "vocab_size": 151936, "decoder_sparse_step": 1,
        "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632, "num_experts_per_tok": 4,
        "num_experts": 60, "norm_topk_prob": False, "output_router_logits": False, "router_aux_loss_coef": 0.001,
    },
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arch", "context", "experts", "width", "shared_width", "billions"),
    [
        ("Mixtral-8x7B-Instruct-v0.1", Arch.MIXTRAL, 32768, 8, 14336, 0, 46.7),
        ("DeepSeek-R1-Distill-Qwen-7B", Arch.QWEN2, 131072, 0, 18944, 0, 7.6),
        ("Qwen1.5-MoE-A2.7B", Arch.QWEN2_MOE, 8192, 60, 1408, 5632, 14.3),
    ],
)
def test_models_as_they_are_published(name, arch, context, experts, width, shared_width, billions):
    config, _ = read_config(Path(name), REAL[name])
    assert (config.arch, config.context_length, config.n_experts) == (arch, context, experts)
    assert (config.hidden_width, config.shared_width) == (width, shared_width)
    assert round(sum(spec.n_elements for spec in tensor_specs(config)) / 1e9, 1) == billions
    make_plan(config, 4)


def test_mistral_is_llama_within_its_window(tmp_path):
    folder = own_folder(tmp_path / "a", model_type="mistral", sliding_window=64)
    assert open_checkpoint(folder).config.context_length == 64
    change_config(folder, sliding_window=None)
    assert open_checkpoint(folder).config.context_length == 512


@pytest.mark.parametrize(("name", "epsilon", "omitted"), [("tiny-llama", 1e-5, True), ("tiny-qwen3", 1e-6, False)])
def test_an_epsilon_that_is_not_said(tmp_path, name, epsilon, omitted):
    """A .m file without it means 1e-5, so only that may be left out there."""
    folder = own_folder(tmp_path / "a", name)
    change_config(folder, rms_norm_eps=None)
    checkpoint = open_checkpoint(folder)
    assert (checkpoint.config.norm_epsilon, "norm_epsilon" in checkpoint.omitted) == (epsilon, omitted)


def test_a_window_that_is_switched_off(tmp_path):
    folder = own_folder(tmp_path / "a", "tiny-qwen3", sliding_window=64, use_sliding_window=False)
    assert open_checkpoint(folder).config.context_length == 512


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (
            {"model_type": "gemma3"},
            "model_type 'gemma3' is not supported; llama, mistral, mixtral, qwen2, qwen2_moe, qwen3,",
        ),
        ({"model_type": None}, "model_type 'missing' is not supported"),
        ({"hidden_act": "gelu"}, 'hidden_act is "gelu", expected silu'),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised by gptq, which cannot be read"),
        ({"quantization_config": {"quant_method": "fp8"}}, "quantised by fp8, which cannot be read"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor is 0.5, expected 1"),
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
        ({"decoder_sparse_step": 2}, "decoder_sparse_step is 2, expected 1"),
        ({"mlp_only_layers": [0]}, r"mlp_only_layers is \[0\], expected an empty list"),
        ({"num_experts_per_tok": 9}, "9 active of 8 experts"),
    ],
)
def test_mixtures_that_are_not_computed(tmp_path, entries, message):
    folder = own_folder(tmp_path / "a", "tiny-qwen3moe")
    change_config(folder, **entries)
    refused(folder, message)
