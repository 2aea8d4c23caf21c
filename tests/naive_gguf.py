"""gemma3 and gpt-oss in plain numpy and float64: the oracle of what only GGUF files have (naive.py has the rest).

The gguf package reads the file. It shares no code with this project: no pages, blocks, leaves or ranks.
"""

from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np

from tests.naive import Doubles, softmax


@dataclass(frozen=True)
class Model:
    """Metadata without the architecture's name, tensors by their names."""

    name: str
    facts: dict[str, object]
    tensors: dict[str, Doubles]

    def of_layer(self, layer: int) -> dict[str, Doubles]:
        prefix = f"blk.{layer}."
        return {name.removeprefix(prefix): t for name, t in self.tensors.items() if name.startswith(prefix)}


def read(path: Path) -> Model:
    reader = gguf.GGUFReader(path)
    name = reader.fields["general.architecture"].contents()
    facts = {key.removeprefix(f"{name}."): field.contents() for key, field in reader.fields.items()}
    tensors = {
        t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(np.float64).reshape(t.shape[::-1])
        for t in reader.tensors
    }
    return Model(name, facts, tensors)


def logits(path: Path, ids: list[int]) -> Doubles:
    """Raw logits [T, V] at every position of a sequence."""
    m = read(path)
    layer = {"gemma3": gemma3_layer, "gpt-oss": gpt_oss_layer}[m.name]
    x = m.tensors["token_embd.weight"][ids]  # [T, D]
    if m.name == "gemma3":
        x = x * np.sqrt(x.shape[1])
    for number in range(m.facts["block_count"]):
        x = layer(m, number, m.of_layer(number), x)
    head = m.tensors.get("output.weight", m.tensors["token_embd.weight"])  # [V, D]
    return norm(m, x, m.tensors["output_norm.weight"]) @ head.T


def gemma3_layer(m: Model, number: int, w: dict[str, Doubles], x: Doubles) -> Doubles:
    """Every sixth layer sees all positions and turns slower; sums are normed before they are added."""
    is_global = number % 6 == 5
    angles = rope_angles(m, m.facts["rope.freq_base"] if is_global else 10000.0)
    y = attention(m, w, norm(m, x, w["attn_norm.weight"]), angles, None if is_global else m.facts[WINDOW])
    x = x + norm(m, y, w["post_attention_norm.weight"])
    y = norm(m, x, w["ffn_norm.weight"])
    gate = y @ w["ffn_gate.weight"].T
    gelu = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
    y = (gelu * (y @ w["ffn_up.weight"].T)) @ w["ffn_down.weight"].T
    return x + norm(m, y, w["post_ffw_norm.weight"])


def gpt_oss_layer(m: Model, number: int, w: dict[str, Doubles], x: Doubles) -> Doubles:
    """Every second layer sees all positions; everything has a bias."""
    window = m.facts[WINDOW] if number % 2 == 0 else None
    x = x + attention(m, w, norm(m, x, w["attn_norm.weight"]), yarn_angles(m), window)
    y = norm(m, x, w["post_attention_norm.weight"])
    return x + np.stack([mixture(m, w, row) for row in y])


def mixture(m: Model, w: dict[str, Doubles], x: Doubles) -> Doubles:
    """Of one row [D]."""
    router = x @ w["ffn_gate_inp.weight"].T + w["ffn_gate_inp.bias"]
    chosen = np.argsort(-router, kind="stable")[: m.facts["expert_used_count"]]
    out = np.zeros_like(x)
    for e, share in zip(chosen, softmax(router[chosen]), strict=True):
        gate = np.minimum(w["ffn_gate_exps.weight"][e] @ x + w["ffn_gate_exps.bias"][e], 7)
        up = np.clip(w["ffn_up_exps.weight"][e] @ x + w["ffn_up_exps.bias"][e], -7, 7)
        hidden = gate / (1 + np.exp(-1.702 * gate)) * (up + 1)
        out += share * (w["ffn_down_exps.weight"][e] @ hidden + w["ffn_down_exps.bias"][e])
    return out


WINDOW = "attention.sliding_window"


def attention(m: Model, w: dict[str, Doubles], x: Doubles, angles: Doubles, window: int | None) -> Doubles:
    """`angles` complex [S, E/2]; a row sees `window` positions, its own included."""
    width = m.facts["attention.key_length"]
    heads = [x @ w[f"attn_{name}.weight"].T + w.get(f"attn_{name}.bias", 0) for name in "qkv"]
    q, k, v = (h.reshape(len(x), -1, width).swapaxes(0, 1) for h in heads)  # [H or K, T, E]
    if "attn_q_norm.weight" in w:
        q, k = norm(m, q, w["attn_q_norm.weight"]), norm(m, k, w["attn_k_norm.weight"])
    q, k = turn(q, angles), turn(k, angles)
    k, v = (np.repeat(h, len(q) // len(h), axis=0) for h in (k, v))  # [H, T, E]
    scores = q @ k.swapaxes(1, 2) / np.sqrt(width)  # [H, T, T]
    ages = np.arange(len(x))[:, None] - np.arange(len(x))
    scores[:, (ages < 0) | (ages >= (window or np.inf))] = -np.inf
    if "attn_sinks.weight" in w:
        sinks = np.broadcast_to(w["attn_sinks.weight"][:, None, None], (*scores.shape[:2], 1))
        shares = softmax(np.concatenate([scores, sinks], axis=2))[..., :-1]
    else:
        shares = softmax(scores)
    out = (shares @ v).swapaxes(0, 1).reshape(len(x), -1) @ w["attn_output.weight"].T
    return out + w.get("attn_output.bias", 0)


def turn(x: Doubles, angles: Doubles) -> Doubles:
    """RoPE of [heads, T, E]: element i with i + E/2."""
    n = x.shape[2] // 2
    turned = (x[..., :n] + 1j * x[..., n:]) * angles[: x.shape[1]]
    return np.concatenate([turned.real, turned.imag], axis=-1)


def rope_angles(m: Model, theta: float) -> Doubles:
    """complex [S, E/2]."""
    n = m.facts["attention.key_length"] // 2
    return np.exp(1j * np.outer(np.arange(m.facts["context_length"]), theta ** (-np.arange(n) / n)))


def yarn_angles(m: Model) -> Doubles:
    """complex [S, E/2]: fast pairs as they are, slow ones slower by the factor, a ramp between; all a little longer."""
    n, theta, factor = m.facts["attention.key_length"] // 2, m.facts["rope.freq_base"], m.facts["rope.scaling.factor"]
    original = m.facts["rope.scaling.original_context_length"]
    first, last = (n * np.log(original / (turns * 2 * np.pi)) / np.log(theta) for turns in (32, 1))
    first, last = max(np.floor(first), 0), min(np.ceil(last), 2 * n - 1)
    slow = np.clip((np.arange(n) - first) / max(last - first, 0.001), 0, 1)
    frequencies = theta ** (-np.arange(n) / n) * (slow / factor + 1 - slow)
    angles = np.outer(np.arange(m.facts["context_length"]), frequencies)
    return (0.1 * np.log(factor) + 1) * np.exp(1j * angles)


def norm(m: Model, x: Doubles, weight: Doubles) -> Doubles:
    epsilon = m.facts["attention.layer_norm_rms_epsilon"]
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon) * weight
