"""A Hugging Face config.json as model facts, and what of it cannot be computed.

It does not look at tensors; whether they fit is checked by `huggingface`.
"""

import json
from pathlib import Path
from typing import Any

from dllama_py.config import Arch, ModelConfig, RopeScaling
from dllama_py.errors import InputError

_ARCHS = {"llama": Arch.LLAMA, "mistral": Arch.LLAMA, "qwen3": Arch.QWEN3, "qwen3_moe": Arch.QWEN3_MOE}
_DEFAULT_THETA = 10000.0  # of llama and mistral; no qwen3 model was trained with it
_DEFAULT_EPSILON = {Arch.LLAMA: 1e-5, Arch.QWEN3: 1e-6, Arch.QWEN3_MOE: 1e-6}


class ConfigJson:
    """Typed look-ups; a null counts as absent."""

    def __init__(self, path: Path, values: dict[str, Any]) -> None:
        self.path = path
        self.values = values

    def get(self, key: str, default: Any = None) -> Any:
        value = self.values.get(key)
        return default if value is None else value

    def whole(self, key: str, default: int | None = None) -> int:
        value = self.get(key, default)
        if type(value) is not int:
            raise self.error(key, "a whole number")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self.get(key, default)
        if type(value) not in (int, float):
            raise self.error(key, "a number")
        return float(value)

    def part(self, key: str) -> "ConfigJson":
        """A nested object; empty if absent."""
        value = self.get(key, {})
        if type(value) is not dict:
            raise self.error(key, "an object")
        return ConfigJson(self.path, value)

    def error(self, key: str, expected: str) -> InputError:
        found = json.dumps(self.values[key])[:60] if key in self.values else "missing"
        return InputError(f"{self.path}: {key} is {found}, expected {expected}")


def read_config(path: Path, values: dict[str, Any]) -> tuple[ModelConfig, frozenset[str]]:
    """Model facts, and the names of those that the config leaves to a default."""
    config = ConfigJson(path, values)
    arch = _arch(config)
    _refuse_what_is_not_computed(config, arch)
    theta, scaling = _rope(config, arch)
    heads = config.whole("num_attention_heads")
    width = config.whole("hidden_size")
    moe = arch is Arch.QWEN3_MOE
    facts = ModelConfig(
        arch=arch,
        width=width,
        n_layers=config.whole("num_hidden_layers"),
        n_heads=heads,
        n_kv_heads=config.whole("num_key_value_heads", heads),
        head_width=config.whole("head_dim", width // max(heads, 1)),
        ffn_width=config.whole("intermediate_size"),
        vocab_size=config.whole("vocab_size"),
        context_length=_context_length(config),
        norm_epsilon=config.number("rms_norm_eps", _DEFAULT_EPSILON[arch]),
        rope_theta=_DEFAULT_THETA if theta is None else theta,
        rope_scaling=scaling,
        n_experts=config.whole("num_experts") if moe else 0,
        n_active_experts=config.whole("num_experts_per_tok") if moe else 0,
        expert_width=config.whole("moe_intermediate_size") if moe else 0,
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
        raise InputError(f"{config.path}: model_type {model_type!r} is not supported; {', '.join(_ARCHS)} are")
    return _ARCHS[model_type]


def _refuse_what_is_not_computed(config: ConfigJson, arch: Arch) -> None:
    if config.get("hidden_act", "silu") != "silu":
        raise config.error("hidden_act", "silu, the only activation that is computed")
    quantised = config.part("quantization_config")
    if quantised.values:
        method = quantised.get("quant_method", "unknown")
        raise InputError(
            f"{config.path}: the checkpoint is quantised by {method}, which cannot be read; "
            "bf16, f16 and f32 checkpoints can, and GGUF files with Q4_0, Q4_1, Q8_0 or Q6_K"
        )
    if config.number("partial_rotary_factor", 1.0) != 1:
        raise config.error("partial_rotary_factor", "1, RoPE over the whole head")
    if arch is Arch.QWEN3_MOE:
        if config.get("norm_topk_prob", False) is not True:
            raise config.error("norm_topk_prob", "true, weights of the chosen experts that sum to 1")
        if config.whole("decoder_sparse_step", 1) != 1:
            raise config.error("decoder_sparse_step", "1, experts in every layer")
        if config.get("mlp_only_layers", []):
            raise config.error("mlp_only_layers", "an empty list, experts in every layer")


def _context_length(config: ConfigJson) -> int:
    """Within an attention window sliding and full attention are the same, so the window limits the context."""
    context = config.whole("max_position_embeddings")
    slides = config.get("use_sliding_window", config.get("model_type") == "mistral")
    if slides and config.get("sliding_window") is not None:
        return min(context, config.whole("sliding_window"))
    return context


def _rope(config: ConfigJson, arch: Arch) -> tuple[float | None, RopeScaling | None]:
    """Base and scaling from the nested `rope_parameters` or from the older `rope_theta` and `rope_scaling`."""
    nested, older = config.part("rope_parameters"), config.part("rope_scaling")
    thetas = {part.number("rope_theta") for part in (nested, config) if part.get("rope_theta") is not None}
    if len(thetas) > 1:
        raise config.error("rope_theta", f"the same as in rope_parameters, {nested.number('rope_theta')}")
    if not thetas and arch is not Arch.LLAMA:
        raise config.error("rope_theta", f"the RoPE base, here or in rope_parameters, for {arch} has no common default")
    scaling = _scaling(nested if nested.values else older)
    return (thetas.pop() if thetas else None), scaling


def _scaling(part: ConfigJson) -> RopeScaling | None:
    kind = part.get("rope_type", part.get("type", "default" if "factor" not in part.values else "missing"))
    if part.number("partial_rotary_factor", 1.0) != 1:
        raise part.error("partial_rotary_factor", "1, RoPE over the whole head")
    nested = [key for key, value in part.values.items() if type(value) is dict]
    if nested or kind not in ("default", "llama3"):
        found = f"per layer kind ({', '.join(nested)})" if nested else repr(kind)
        raise InputError(f"{part.path}: RoPE scaling {found} is not supported; 'default' and 'llama3' are")
    if kind == "default":
        return None
    scaling = RopeScaling(
        factor=part.number("factor"),
        low_freq_factor=part.number("low_freq_factor"),
        high_freq_factor=part.number("high_freq_factor"),
        original_context=part.whole("original_max_position_embeddings"),
    )
    if scaling.factor < 1 or not 0 < scaling.low_freq_factor < scaling.high_freq_factor:
        raise part.error("factor", "at least 1, with 0 < low_freq_factor < high_freq_factor")
    return scaling
