"""GGUF metadata as model facts, by llama.cpp's rules for each architecture. It does not look at tensors."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dllama_py.blocks import Floats
from dllama_py.config import MIXTURES, Arch, ModelConfig
from dllama_py.errors import InputError
from dllama_py.formats.gguf_facts import Facts
from dllama_py.formats.gguf_rope import read_rope
from dllama_py.formats.gguf_windows import read_windows

_ARCHS = {
    "llama": Arch.LLAMA,
    "qwen2": Arch.QWEN2,
    "qwen2moe": Arch.QWEN2_MOE,
    "qwen3": Arch.QWEN3,
    "qwen3moe": Arch.QWEN3_MOE,
    "gemma3": Arch.GEMMA3,
    "gpt-oss": Arch.GPT_OSS,
}
_SOFTMAX = 1


@dataclass(frozen=True, slots=True)
class TensorFacts:
    """What only the tensors say: rows of the embedding, rope_freqs (float32 [E/2]), and which biases there are."""

    vocab_size: int
    rope_factors: Floats | None = None
    has_qkv_bias: bool = False
    has_o_bias: bool = False


def open_facts(path: Path, metadata: Mapping[str, Any]) -> tuple[Arch, Facts]:
    """The architecture and its facts; InputError for another one and for adapters."""
    name = metadata.get("general.architecture", "missing")
    if metadata.get("general.type", "model") != "model":
        found = metadata["general.type"]
        way = "merge it into its model with llama.cpp's llama-export-lora, or " if found == "adapter" else ""
        raise InputError(f"{path}: is of the type {str(found)[:40]!r}, not a model; {way}give the model's own file")
    if type(name) is not str or name not in _ARCHS:
        raise InputError(f"{path}: architecture {str(name)[:40]!r} is not supported; {', '.join(_ARCHS)} are")
    facts = Facts(path, metadata, name)
    arch = _ARCHS[name]
    if arch is Arch.LLAMA and facts.whole("expert_count", 0):
        return Arch.MIXTRAL, facts
    return arch, facts


def read_config(arch: Arch, facts: Facts, tensors: TensorFacts) -> tuple[ModelConfig, frozenset[str]]:
    """Model facts, and the names of those that the file leaves to a default."""
    heads, width = facts.whole("attention.head_count"), facts.whole("embedding_length")
    head_width = facts.whole("attention.key_length", width // max(heads, 1))
    _refuse_what_is_not_computed(facts, head_width)
    config = ModelConfig(
        arch=arch,
        width=width,
        n_layers=facts.whole("block_count"),
        n_heads=heads,
        n_kv_heads=facts.whole("attention.head_count_kv", heads),
        head_width=head_width,
        vocab_size=tensors.vocab_size,
        norm_epsilon=facts.number("attention.layer_norm_rms_epsilon"),
        has_qkv_bias=tensors.has_qkv_bias,
        has_o_bias=tensors.has_o_bias,
        **read_rope(facts, tensors.rope_factors, head_width),
        **read_windows(arch, facts),
        **_feed_forward(arch, facts),
    )
    stated = {"rope_theta": "rope.freq_base", "head_width": "attention.key_length"}
    return config, frozenset(name for name, fact in stated.items() if fact not in facts)


def _feed_forward(arch: Arch, facts: Facts) -> dict[str, Any]:
    """Widths of the dense layer, of experts, and of an expert that every token uses."""
    if arch not in MIXTURES:
        if facts.whole("expert_count", 0):
            raise facts.error("expert_count", facts.whole("expert_count", 0), f"none in a {arch} model")
        return {"ffn_width": facts.whole("feed_forward_length")}
    dense, n_active = facts.whole("feed_forward_length", 0), facts.whole("expert_used_count")
    fields = {"ffn_width": dense, "n_experts": facts.whole("expert_count"), "n_active_experts": n_active}
    if arch is Arch.MIXTRAL:
        return fields | {"expert_width": dense}
    if arch in (Arch.QWEN3_MOE, Arch.GPT_OSS):
        return fields | {"expert_width": facts.whole("expert_feed_forward_length")}
    return fields | {  # older files have the dense width alone
        "expert_width": facts.whole("expert_feed_forward_length", 0) or dense // max(n_active, 1),
        "shared_width": facts.whole("expert_shared_feed_forward_length", 0) or dense,
        "weighs_all_experts": True,
    }


def _refuse_what_is_not_computed(facts: Facts, head_width: int) -> None:
    for fact in ("attention.value_length", "rope.dimension_count"):
        if facts.whole(fact, head_width) != head_width:
            raise facts.error(fact, facts.get(fact, None), f"the head width {head_width}")
    if facts.number("expert_weights_scale", 0.0) not in (0, 1):
        raise facts.error("expert_weights_scale", facts.get("expert_weights_scale", None), "1")
    if facts.whole("expert_gating_func", _SOFTMAX) not in (0, _SOFTMAX):
        raise facts.error("expert_gating_func", facts.get("expert_gating_func", None), f"{_SOFTMAX}, softmax")
    if facts.number("final_logit_softcapping", 0.0) != 0:
        raise facts.error("final_logit_softcapping", facts.get("final_logit_softcapping", None), "0")
