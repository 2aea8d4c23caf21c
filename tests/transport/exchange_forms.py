"""python -m tests.transport.exchange_forms MODEL [--tokens N] [--forms NAME,...]: what forms of the exchange cost.

A llama model in numpy, weights and activations as the engine has them but in plain float32 sums, whose outputs of `o`
and `down` are added over P leaves in the tree of docs/arithmetic.md; every leaf, inner node and root is rounded to a
form. Tells each form's bits a value and, against sums that are not rounded, the change of perplexity and the mean KL
divergence in nats. The text is documentation that every Python brings along (pydoc_data.topics), cut into windows.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import numpy as np

from dllama_py.blocks import Floats, dequantize
from dllama_py.config import ModelConfig
from dllama_py.formats.checkpoint import Checkpoint, Embedding, open_checkpoint
from dllama_py.formats.tensors import tensor_specs
from dllama_py.model.angles import turned
from dllama_py.model.rope import frequencies
from dllama_py.prompting import open_text
from dllama_py.sharding.plan import make_plan
from tests.transport.forms import FORMS, Rule, tree_sum

WINDOW = 256
TOPICS = ("types", "objects", "import", "execmodel", "exceptions", "class", "with", "typesmapping")


class Llama:
    """All rows of a window at once."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self.config: ModelConfig = checkpoint.config
        self.weights = {
            spec.name: dequantize(checkpoint.read(spec, 0, spec.matrix_shape[0]), checkpoint.float_type(spec))
            for spec in tensor_specs(self.config)
            if spec.role != "embedding"
        }
        self.checkpoint = checkpoint
        shard = make_plan(self.config, 1, False)[0]
        self.head_leaves = [32 * block for block in shard.head_leaves]
        self.hidden_leaves = [32 * block for block in shard.hidden_leaves]
        self.turns = turned(frequencies(self.config), WINDOW)

    def logits(self, ids: list[int], rule: Rule) -> Floats:
        """float32 [T, V]."""
        x = Embedding(self.checkpoint).rows(ids)
        for layer in range(self.config.n_layers):
            w = {name.split(".")[2]: t for name, t in self.weights.items() if name.startswith(f"layers.{layer}.")}
            x = x + self.partial(self.attended(self.norm(x, w["attention_norm"]), w), w["o"], self.head_leaves, rule)
            normed = quantized(self.norm(x, w["ffn_norm"]))
            gate = normed @ w["gate"].T
            hidden = gate / (1 + np.exp(-gate)) * (normed @ w["up"].T)
            x = x + self.partial(hidden, w["down"], self.hidden_leaves, rule)
        return quantized(self.norm(x, self.weights["final_norm"])) @ self.weights["head"].T

    def norm(self, x: Floats, weight: Floats) -> Floats:
        inverse = 1 / np.sqrt(np.mean(x * x, axis=1, keepdims=True) + np.float32(self.config.norm_epsilon))
        return x * inverse.astype(np.float32) * weight

    def partial(self, x: Floats, weight: Floats, borders: list[int], rule: Rule) -> Floats:
        x = quantized(x)
        spans = zip(borders, borders[1:], strict=False)
        return tree_sum([x[:, a:b] @ weight[:, a:b].T for a, b in spans], rule)

    def attended(self, x: Floats, w: dict[str, Floats]) -> Floats:
        c, x = self.config, quantized(x)
        q, k, v = ((x @ w[name].T).reshape(len(x), -1, c.head_width).swapaxes(0, 1) for name in "qkv")  # [H or K, T, E]
        q, k = self.turn(q), self.turn(k)
        k, v = (np.repeat(h, c.n_heads // c.n_kv_heads, axis=0) for h in (k, v))
        scores = q @ k.swapaxes(1, 2) / np.float32(np.sqrt(c.head_width))
        scores[:, np.triu(np.ones(scores.shape[1:], bool), 1)] = -np.inf
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return (powers / powers.sum(axis=-1, keepdims=True) @ v).swapaxes(0, 1).reshape(len(x), -1)

    def turn(self, x: Floats) -> Floats:
        """RoPE of [heads, T, E] in adjacent pairs."""
        cos, sin = (table[: x.shape[1]].astype(np.float32) for table in self.turns)
        a, b = x[..., ::2], x[..., 1::2]
        return np.stack([a * cos - b * sin, a * sin + b * cos], axis=-1).reshape(x.shape)


def quantized(x: Floats) -> Floats:
    """Activations as the products meet them: q80 blocks with a float32 scale."""
    blocks = x.reshape(-1, 32)
    scale = np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale > 0)
    return (np.rint(blocks * inverse) * scale).reshape(x.shape)


def log_softmax(logits: Floats) -> Any:
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True, dtype=np.float64))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--forms", default=";".join(FORMS), help="names with semicolons between them")
    arguments = parser.parse_args()
    checkpoint = open_checkpoint(arguments.model)
    text = open_text(checkpoint, None)
    assert text is not None
    words = "\n".join(topics[name] for name in TOPICS)[: 8 * arguments.tokens]
    ids = text.tokenizer.encode(words)[: arguments.tokens]
    measure(Llama(checkpoint), ids, arguments.forms.split(";"))


def measure(model: Llama, ids: Sequence[int], names: Sequence[str]) -> None:
    """Prints a line a form."""
    nats: dict[str, list[Any]] = {name: [] for name in ["f32", *names]}
    divergences: dict[str, list[Any]] = {name: [] for name in names}
    for start in range(0, len(ids) - WINDOW + 1, WINDOW):
        window = list(ids[start : start + WINDOW])
        scored = np.arange(WINDOW - 1), np.array(window[1:])
        base = log_softmax(model.logits(window, FORMS["f32"])[:-1])
        nats["f32"].append(-base[scored])
        for name in names:
            found = log_softmax(model.logits(window, FORMS[name])[:-1])
            nats[name].append(-found[scored])
            divergences[name].append((np.exp(base) * (base - found)).sum(axis=1))
    f32 = np.concatenate(nats["f32"])
    print(f"{len(f32)} scored tokens, perplexity with unrounded sums {np.exp(f32.mean()):.4f}")
    for name in names:
        change = np.concatenate(nats[name]) - f32
        percent, error = 100 * np.expm1(change.mean()), 100 * change.std() / np.sqrt(len(change))
        kl = np.concatenate(divergences[name]).mean()
        print(f"| {name} | {FORMS[name].bits:g} | {percent:+.3f} ± {error:.3f} % | {kl:.6f} |")


if __name__ == "__main__":
    main()
