"""Tiny models of the architectures that golden/make_tiny_hf.py does not have, by the same generator.

All tensors differ from each other. Biases are as large as what they are added to, so that none can be forgotten or
added twice unseen.
"""

import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.golden.make_tiny_hf import COMMON, bf16, uniform

# With a RoPE base of 10000 and heads of 16 the ramp goes from pair 1 to pair 5.
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024, "attention_factor": 1.25}
_QWEN2 = COMMON | {"head_dim": 16, "rope_theta": 10000.0, "rms_norm_eps": 1e-6, "tie_word_embeddings": False}
MODELS: dict[str, dict[str, Any]] = {
    "tiny-mixtral": COMMON
    | {"model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "head_dim": 32, "rope_theta": 1e6}
    | {"rms_norm_eps": 1e-5, "tie_word_embeddings": False, "num_local_experts": 8, "num_experts_per_tok": 2},
    "tiny-qwen2": _QWEN2 | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "tie_word_embeddings": True},
    "tiny-qwen2moe": _QWEN2
    | {"model_type": "qwen2_moe", "architectures": ["Qwen2MoeForCausalLM"], "num_experts": 12}
    | {"num_experts_per_tok": 4, "moe_intermediate_size": 64, "shared_expert_intermediate_size": 160}
    | {"norm_topk_prob": False, "decoder_sparse_step": 1, "mlp_only_layers": []},
    "tiny-biased-llama": _QWEN2
    | {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "attention_bias": True}
    | {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
    "tiny-yarn": _QWEN2 | {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"], "rope_scaling": YARN},
}
_SCALES = {"weight": 0.25, "bias": 1.0}


def tensors(config: dict[str, Any]) -> dict[str, np.ndarray]:
    """bf16 bits by Hugging Face names."""
    return {name: _values(name, shape) for name, shape in _shapes(config)}


def _values(name: str, shape: tuple[int, ...]) -> np.ndarray:
    is_norm = name.endswith("norm.weight")
    values = uniform(f"{zlib.crc32(name.encode()):08x}", shape, 0.125 if is_norm else _SCALES[name.rsplit(".", 1)[1]])
    return bf16(values + np.float32(1) if is_norm else values)


def _shapes(c: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    d = c["hidden_size"]
    yield "model.embed_tokens.weight", (c["vocab_size"], d)
    yield "model.norm.weight", (d,)
    if not c["tie_word_embeddings"]:
        yield "lm_head.weight", (c["vocab_size"], d)
    for layer in range(c["num_hidden_layers"]):
        for role, shape in [*_attention(c), *_feed_forward(c)]:
            yield f"model.layers.{layer}.{role}", shape


def _attention(c: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    d, q, kv = c["hidden_size"], c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]
    has_qkv_bias = c["model_type"].startswith("qwen2") or c.get("attention_bias")
    for role, rows in (("q", q), ("k", kv), ("v", kv)):
        yield f"self_attn.{role}_proj.weight", (rows, d)
        if has_qkv_bias:
            yield f"self_attn.{role}_proj.bias", (rows,)
    yield "self_attn.o_proj.weight", (d, q)
    if c.get("attention_bias"):
        yield "self_attn.o_proj.bias", (d,)
    yield "input_layernorm.weight", (d,)
    yield "post_attention_layernorm.weight", (d,)


def _feed_forward(c: dict[str, Any]) -> Iterator[tuple[str, tuple[int, ...]]]:
    d, f = c["hidden_size"], c["intermediate_size"]
    if "num_local_experts" in c:
        yield "block_sparse_moe.gate.weight", (c["num_local_experts"], d)
        for expert in range(c["num_local_experts"]):
            yield from _gated(f"block_sparse_moe.experts.{expert}.", ("w1", "w3", "w2"), d, f)
    elif "num_experts" in c:
        yield "mlp.gate.weight", (c["num_experts"], d)
        yield "mlp.shared_expert_gate.weight", (1, d)
        yield from _gated("mlp.shared_expert.", _PROJECTIONS, d, c["shared_expert_intermediate_size"])
        for expert in range(c["num_experts"]):
            yield from _gated(f"mlp.experts.{expert}.", _PROJECTIONS, d, c["moe_intermediate_size"])
    else:
        yield from _gated("mlp.", _PROJECTIONS, d, f)


_PROJECTIONS = ("gate_proj", "up_proj", "down_proj")


def _gated(prefix: str, names: tuple[str, str, str], d: int, f: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    for name, shape in zip(names, ((f, d), (f, d), (d, f)), strict=True):
        yield f"{prefix}{name}.weight", shape
