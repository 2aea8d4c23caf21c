"""A Hugging Face config.json as model facts, and what of it cannot be computed.

It does not look at tensors; whether they fit is checked by `huggingface`.
"""

from pathlib import Path
from typing import Any

from dllama_py.config import ALWAYS_QKV_BIAS, MIXTURES, Arch, ModelConfig
from dllama_py.errors import InputError
from dllama_py.formats.config_json import ConfigJson
from dllama_py.formats.huggingface_rope import DEFAULT_THETA, read_rope
from dllama_py.formats.other_checkpoints import instead_of, refuse_quantised
from dllama_py.rope_scaling import RopeScaling

_ARCHS = {
    "llama": Arch.LLAMA,
    "mistral": Arch.LLAMA,
    "mixtral": Arch.MIXTRAL,
    "qwen2": Arch.QWEN2,
    "qwen2_moe": Arch.QWEN2_MOE,
    "qwen3": Arch.QWEN3,
    "qwen3_moe": Arch.QWEN3_MOE,
}
_SLIDING = ("mistral", "mixtral")  # unless the config says otherwise
_DEFAULT_EPSILON = {Arch.LLAMA: 1e-5, Arch.MIXTRAL: 1e-5}  # of all others 1e-6


def read_config(path: Path, values: dict[str, Any]) -> tuple[ModelConfig, frozenset[str]]:
    """Model facts, and the names of those that the config leaves to a default."""
    config = ConfigJson(path, values)
    arch = _arch(config)
    _refuse_what_is_not_computed(config, arch)
    theta, scaling = read_rope(config, arch)
    heads = config.whole("num_attention_heads")
    width = config.whole("hidden_size")
    facts = ModelConfig(
        arch=arch,
        width=width,
        n_layers=config.whole("num_hidden_layers"),
        n_heads=heads,
        n_kv_heads=config.whole("num_key_value_heads", heads),
        head_width=config.whole("head_dim", width // max(heads, 1)),
        ffn_width=config.whole("intermediate_size"),
        vocab_size=config.whole("vocab_size"),
        context_length=_context_length(config, scaling),
        norm_epsilon=config.number("rms_norm_eps", _DEFAULT_EPSILON.get(arch, 1e-6)),
        rope_theta=DEFAULT_THETA if theta is None else theta,
        rope_scaling=scaling,
        **_mixture(config, arch),
        **_biases(config, arch),
    )
    stated = {
        "rope_theta": theta is not None,
        "head_width": config.get("head_dim") is not None,
        # A .m file without the epsilon means 1e-5
        "norm_epsilon": config.get("rms_norm_eps") is not None or facts.norm_epsilon != 1e-5,
    }
    return facts, frozenset(name for name, is_stated in stated.items() if not is_stated)


def _arch(config: ConfigJson) -> Arch:
    model_type = config.get("model_type", "missing")
    if model_type not in _ARCHS:
        known = ", ".join(_ARCHS)
        raise InputError(
            f"{config.path}: model_type {model_type!r} is not supported; {known} are{instead_of(model_type)}"
        )
    return _ARCHS[model_type]


def _mixture(config: ConfigJson, arch: Arch) -> dict[str, Any]:
    """Experts, in the words of each architecture."""
    if arch not in MIXTURES:
        return {}
    fields: dict[str, Any] = {"n_active_experts": config.whole("num_experts_per_tok")}
    if arch is Arch.MIXTRAL:
        return fields | {
            "n_experts": config.whole("num_local_experts"),
            "expert_width": config.whole("intermediate_size"),
        }
    return fields | {
        "n_experts": config.whole("num_experts"),
        "expert_width": config.whole("moe_intermediate_size"),
        "shared_width": config.whole("shared_expert_intermediate_size") if arch is Arch.QWEN2_MOE else 0,
        "weighs_all_experts": config.get("norm_topk_prob", False) is not True,
    }


def _biases(config: ConfigJson, arch: Arch) -> dict[str, Any]:
    """qwen2 models have them for q, k and v; others where the config asks for them, then for o too."""
    if arch in ALWAYS_QKV_BIAS:
        return {"has_qkv_bias": config.get("qkv_bias", True) is True}
    asked = config.get("attention_bias", False) is True
    return {"has_qkv_bias": asked, "has_o_bias": asked}


def _refuse_what_is_not_computed(config: ConfigJson, arch: Arch) -> None:
    if config.get("hidden_act", "silu") != "silu":
        raise config.error("hidden_act", "silu, the only activation that is computed")
    refuse_quantised(config.path, config.values)
    if config.number("partial_rotary_factor", 1.0) != 1:
        raise config.error("partial_rotary_factor", "1, RoPE over the whole head")
    if arch in MIXTURES:
        if config.whole("decoder_sparse_step", 1) != 1:
            raise config.error("decoder_sparse_step", "1, experts in every layer")
        if config.get("mlp_only_layers", []):
            raise config.error("mlp_only_layers", "an empty list, experts in every layer")


def _context_length(config: ConfigJson, scaling: RopeScaling | None) -> int:
    """As long as YaRN makes it, also where the config has only been given a scaling.

    Within an attention window sliding and full attention are the same, so the window limits the context.
    """
    context = config.whole("max_position_embeddings")
    if scaling is not None:
        context = max(context, scaling.stretched_context)
    slides = config.get("use_sliding_window", config.get("model_type") in _SLIDING)
    if slides and config.get("sliding_window") is not None:
        return min(context, config.whole("sliding_window"))
    return context
