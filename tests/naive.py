"""The whole transformer (llama, mixtral, qwen2 and 3 with their mixtures) in plain numpy and float64: the oracle of
the model tests.

It reads a Hugging Face folder by itself and shares no code with the package: no pages, blocks, leaves or ranks.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


def logits(folder: Path, ids: list[int]) -> Doubles:
    """Raw logits [T, V] at every position of a sequence."""
    c, w = json.loads((folder / "config.json").read_text()), read_tensors(folder)
    x = w["model.embed_tokens.weight"][ids]  # [T, D]
    for layer in range(c["num_hidden_layers"]):
        own = {name.split(f"layers.{layer}.")[1]: t for name, t in w.items() if f"layers.{layer}." in name}
        x = x + attention(c, own, norm(x, own["input_layernorm.weight"], c))
        y = norm(x, own["post_attention_layernorm.weight"], c)
        x = x + (feed_forward(own, "mlp.", y) if "mlp.up_proj.weight" in own else mixture(c, own, y))
    head = w.get("lm_head.weight", w["model.embed_tokens.weight"])  # [V, D]
    return norm(x, w["model.norm.weight"], c) @ head.T


def attention(c: dict[str, Any], w: dict[str, Doubles], x: Doubles) -> Doubles:
    n_heads, n_kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
    width = c.get("head_dim") or c["hidden_size"] // n_heads
    heads = [linear(x, w, f"self_attn.{name}_proj") for name in "qkv"]
    q, k, v = (h.reshape(len(x), -1, width).swapaxes(0, 1) for h in heads)  # [H or K, T, E]
    if "self_attn.q_norm.weight" in w:
        q, k = norm(q, w["self_attn.q_norm.weight"], c), norm(k, w["self_attn.k_norm.weight"], c)
    q, k = turn(q, c), turn(k, c)
    k, v = (np.repeat(h, n_heads // n_kv_heads, axis=0) for h in (k, v))  # [H, T, E]
    scores = q @ k.swapaxes(1, 2) / np.sqrt(width)  # [H, T, T]
    scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
    return linear((softmax(scores) @ v).swapaxes(0, 1).reshape(len(x), -1), w, "self_attn.o_proj")


def linear(x: Doubles, w: dict[str, Doubles], name: str) -> Doubles:
    return x @ w[f"{name}.weight"].T + w.get(f"{name}.bias", 0)


def turn(x: Doubles, c: dict[str, Any]) -> Doubles:
    """RoPE of [heads, T, E]; files of Hugging Face pair element i with i + E/2."""
    n = x.shape[2] // 2
    rope = c.get("rope_parameters") or c.get("rope_scaling") or {}
    frequencies = rope.get("rope_theta", c.get("rope_theta")) ** (-np.arange(n) / n)  # [E/2]
    kept, magnitude = share_kept(frequencies, rope)
    frequencies = (1 - kept) * frequencies / rope.get("factor", 1) + kept * frequencies
    angles = np.outer(np.arange(x.shape[1]), frequencies)  # [T, E/2]
    turned = magnitude * (x[..., :n] + 1j * x[..., n:]) * np.exp(1j * angles)
    return np.concatenate([turned.real, turned.imag], axis=-1)


def share_kept(frequencies: Doubles, rope: dict[str, Any]) -> tuple[Doubles | float, float]:
    """How much of each frequency a scaling leaves as it is, and by what it multiplies cos and sin."""
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind in ("default", "linear"):
        return 0.0, 1.0
    turns = rope["original_max_position_embeddings"] * frequencies / (2 * np.pi)
    if kind == "llama3":
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        return np.clip((turns - low) / (high - low), 0, 1), 1.0
    steps = np.log(frequencies[0] / frequencies[1])  # from pair to pair; turns beta of pair ln(turns_0 / beta) / steps
    first, last = np.floor(np.log(turns[0] / 32) / steps), np.ceil(np.log(turns[0]) / steps)
    pairs = np.arange(len(turns))
    kept = 1 - np.clip((pairs - max(first, 0)) / max(last - max(first, 0), 1e-3), 0, 1)
    return kept, rope.get("attention_factor", 0.1 * np.log(rope["factor"]) + 1)


def feed_forward(w: dict[str, Doubles], prefix: str, x: Doubles) -> Doubles:
    names = ("w1", "w3", "w2") if f"{prefix}w1.weight" in w else ("gate_proj", "up_proj", "down_proj")
    gate, up, down = (w[f"{prefix}{name}.weight"].T for name in names)
    return silu(x @ gate) * (x @ up) @ down


def mixture(c: dict[str, Any], w: dict[str, Doubles], x: Doubles) -> Doubles:
    prefix = "mlp." if "mlp.gate.weight" in w else "block_sparse_moe."
    out = np.zeros_like(x)
    if "mlp.shared_expert_gate.weight" in w:
        out += feed_forward(w, "mlp.shared_expert.", x) / (1 + np.exp(-linear(x, w, "mlp.shared_expert_gate")))
    for row, scores in enumerate(linear(x, w, f"{prefix}gate")):
        chosen = np.argsort(-scores, kind="stable")[: c["num_experts_per_tok"]]
        shares = softmax(scores[chosen]) if c.get("norm_topk_prob", True) else softmax(scores)[chosen]
        for expert, share in zip(chosen, shares, strict=True):
            out[row] += share * feed_forward(w, f"{prefix}experts.{expert}.", x[row])
    return out


def silu(x: Doubles) -> Doubles:
    return x / (1 + np.exp(-x))


def norm(x: Doubles, weight: Doubles, c: dict[str, Any]) -> Doubles:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + c["rms_norm_eps"]) * weight


def softmax(x: Doubles) -> Doubles:
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)


def read_tensors(folder: Path) -> dict[str, Doubles]:
    """All tensors of all shards, bf16, f16 or f32, by the safetensors layout: header length, JSON header, bytes."""
    tensors = {}
    for path in folder.glob("*.safetensors"):
        data = path.read_bytes()
        start = 8 + int.from_bytes(data[:8], "little")
        for name, entry in json.loads(data[8:start]).items():
            if name != "__metadata__":
                first, end = entry["data_offsets"]
                values = widen(np.frombuffer(data[start + first : start + end], np.uint8), entry["dtype"])
                tensors[name] = values.reshape(entry["shape"])
    return tensors


def widen(data: NDArray[np.uint8], dtype: str) -> Doubles:
    if dtype == "BF16":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return data.view({"F16": np.float16, "F32": np.float32}[dtype]).astype(np.float64)
