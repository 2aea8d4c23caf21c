"""Tiny GGUF files of architectures that we read from GGUF only: gemma3 and gpt-oss. Float weights that depend on names.

gemma3: 7 layers, of which the sixth sees all positions and the others a window of 80. gpt-oss: 4 layers, every second
one sees all. Both have width 128, 8 heads of 32 over 4 key/value heads and a vocabulary of 320.
"""

import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind

from tests.checkpoints import add_gguf_tensor, add_tokenizer, finish_gguf
from tests.golden.make_tiny_hf import uniform

NAMES = ("gemma3", "gpt-oss")
WIDTH, HEADS, KV_HEADS, HEAD_WIDTH, FFN, VOCAB = 128, 8, 4, 32, 256, 320
EXPERTS, EXPERT_WIDTH = 4, 64
LAYERS = {"gemma3": 7, "gpt-oss": 4}
WINDOW = 80
DECIDED = {
    "ffn_gate_inp.bias": 20.0,
    "ffn_gate_exps.weight": 0.3,
    "ffn_up_exps.weight": 0.3,
    "attn_q.weight": 0.3,
}
IDS = [(37 * i + 11) % VOCAB for i in range(200)]
GOLDEN_POSITIONS = [0, 63, 79, 80, 100, 143, 199]

Shapes = Iterator[tuple[str, tuple[int, ...], float]]


def decided_gpt_oss(path: Path, kind: str, experts: str = "MXFP4") -> Path:
    """One whose rows have experts that are clearly the best, and values that few rounding errors grow in: so it says
    the same however activations are rounded.
    """
    return tiny_gguf_model(path, "gpt-oss", kind, experts, DECIDED)


def tiny_gguf_model(
    path: Path, name: str, kind: str = "F32", experts: str = "", scales: Mapping[str, float] = {}, **changes: object
) -> Path:
    """`kind`: of all matrices, as ggml calls it, `experts`: of those of experts, if it is another. `scales`: factors of
    tensors, by their names without the layer's. `changes`: metadata keys after the architecture's name, dots as `__`;
    None leaves one out.
    """
    writer = gguf.GGUFWriter(path, name)
    facts = {key.replace("__", "."): value for key, value in changes.items()}
    for key, value in ({**_common_facts(name), **_own_facts(name)} | facts).items():
        if value is not None:
            add_fact(writer, f"{name}.{key}", value)
    add_tokenizer(writer, VOCAB)
    for tensor, shape, scale in _shapes(name):
        factor = scales.get(tensor.split(".", 2)[-1], 1.0)
        is_matrix = len(shape) > 1 and tensor.endswith(".weight") and "ffn_gate_inp" not in tensor
        own = Kind[experts if experts and "_exps" in tensor else kind]
        add_gguf_tensor(writer, tensor, _values(tensor, shape, factor * scale), own if is_matrix else Kind.F32)
    finish_gguf(writer)
    return path


def add_fact(writer: gguf.GGUFWriter, key: str, value: object) -> None:
    """Of the type of GGUF that fits the value."""
    if isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, list):
        writer.add_array(key, value)
    else:
        writer.add_uint32(key, value)


def _common_facts(name: str) -> dict[str, object]:
    return {
        "context_length": 512,
        "embedding_length": WIDTH,
        "block_count": LAYERS[name],
        "feed_forward_length": FFN,
        "attention.head_count": HEADS,
        "attention.head_count_kv": KV_HEADS,
        "attention.key_length": HEAD_WIDTH,
        "attention.value_length": HEAD_WIDTH,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "attention.sliding_window": WINDOW,
    }


def _own_facts(name: str) -> dict[str, object]:
    if name == "gemma3":
        return {"rope.freq_base": 1e6}
    return {
        "rope.freq_base": 150000.0,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 64,
        "expert_count": EXPERTS,
        "expert_used_count": 2,
        "expert_feed_forward_length": EXPERT_WIDTH,
    }


def _values(name: str, shape: tuple[int, ...], scale: float) -> np.ndarray:
    """Around 1 for norms, around 0 for all else."""
    values = uniform(f"{zlib.crc32(name.encode()):08x}", shape, scale)
    return values + np.float32(1) if "norm" in name else values


def _shapes(name: str) -> Shapes:
    """Name, shape and largest magnitude of every tensor."""
    yield "token_embd.weight", (VOCAB, WIDTH), 0.25
    yield "output_norm.weight", (WIDTH,), 0.125
    if name == "gpt-oss":
        yield "output.weight", (VOCAB, WIDTH), 0.25
    for layer in range(LAYERS[name]):
        for tensor, shape, scale in (*_attention(), *(_gemma3() if name == "gemma3" else _gpt_oss())):
            yield f"blk.{layer}.{tensor}", shape, scale


def _attention() -> Shapes:
    q, kv = HEADS * HEAD_WIDTH, KV_HEADS * HEAD_WIDTH
    yield "attn_norm.weight", (WIDTH,), 0.125
    yield "attn_q.weight", (q, WIDTH), 0.25
    yield "attn_k.weight", (kv, WIDTH), 0.25
    yield "attn_v.weight", (kv, WIDTH), 0.25
    yield "attn_output.weight", (WIDTH, q), 0.25
    yield "post_attention_norm.weight", (WIDTH,), 0.125


def _gemma3() -> Shapes:
    yield "attn_q_norm.weight", (HEAD_WIDTH,), 0.5
    yield "attn_k_norm.weight", (HEAD_WIDTH,), 0.5
    yield "ffn_norm.weight", (WIDTH,), 0.125
    yield "ffn_gate.weight", (FFN, WIDTH), 0.25
    yield "ffn_up.weight", (FFN, WIDTH), 0.25
    yield "ffn_down.weight", (WIDTH, FFN), 0.25
    yield "post_ffw_norm.weight", (WIDTH,), 0.125


def _gpt_oss() -> Shapes:
    q, kv = HEADS * HEAD_WIDTH, KV_HEADS * HEAD_WIDTH
    yield "attn_q.bias", (q,), 0.5
    yield "attn_k.bias", (kv,), 0.5
    yield "attn_v.bias", (kv,), 0.5
    yield "attn_output.bias", (WIDTH,), 0.5
    yield "attn_sinks.weight", (HEADS,), 2
    yield "ffn_gate_inp.weight", (EXPERTS, WIDTH), 0.25
    yield "ffn_gate_inp.bias", (EXPERTS,), 1
    yield "ffn_gate_exps.weight", (EXPERTS, EXPERT_WIDTH, WIDTH), 0.75  # so that some values are clamped
    yield "ffn_up_exps.weight", (EXPERTS, EXPERT_WIDTH, WIDTH), 0.75
    yield "ffn_down_exps.weight", (EXPERTS, WIDTH, EXPERT_WIDTH), 0.25
    yield "ffn_gate_exps.bias", (EXPERTS, EXPERT_WIDTH), 0.5
    yield "ffn_up_exps.bias", (EXPERTS, EXPERT_WIDTH), 0.5
    yield "ffn_down_exps.bias", (EXPERTS, WIDTH), 0.5
