"""Tiny models of all file formats, for the tests of every room. Weights are those of golden/make_tiny_hf.py.

tiny-llama, tiny-llama31 (tied, llama3 RoPE scaling), tiny-qwen3 (tied) and tiny-qwen3moe have width 128, 2 layers,
8 heads over 4 key/value heads, a vocabulary of 320 and a context of 512. tests/golden/tiny.json has the hashes of
their `.m` files and reference logits. tests/tiny_models.py has tiny models of other architectures.

Golden weights depend on the first eight letters of a name and on the shape only: gate and up, all layers and all
experts are alike. Where an exchange of two tensors must be seen, ask for `distinct=True`.
"""

import json
import math
import shutil
import zlib
from pathlib import Path
from typing import Any

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Kind

from dllama_py.blocks import FloatType, widen_bf16
from dllama_py.config import ModelConfig
from dllama_py.conversion import convert_model
from dllama_py.formats.checkpoint import open_checkpoint
from dllama_py.formats.huggingface_config import read_config
from dllama_py.formats.random_blocks import random_blocks
from tests import tiny_models
from tests.golden import make_tiny_hf

NAMES = list(make_tiny_hf.MODELS)
OTHER_NAMES = list(tiny_models.MODELS)
MODELS = make_tiny_hf.MODELS | tiny_models.MODELS
_GGUF_ARCHS = {"llama": "llama", "mistral": "llama", "mixtral": "llama", "qwen2": "qwen2", "qwen2_moe": "qwen2moe"}
_GGUF_ARCHS |= {"qwen3": "qwen3", "qwen3_moe": "qwen3moe"}
_GOLDEN_TYPES = ("llama", "mistral", "qwen3", "qwen3_moe")
_ADJACENT = ("llama", "mistral", "mixtral")
_OUTSIDE_LAYERS = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
_IN_LAYERS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.down_proj": "ffn_down",
    "mlp.up_proj": "ffn_up",
    "mlp.gate": "ffn_gate_inp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "block_sparse_moe.gate": "ffn_gate_inp",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
}


_EXPERT_PARTS = {"w1": "gate", "w2": "down", "w3": "up", "gate_proj": "gate", "down_proj": "down", "up_proj": "up"}


def tiny_folder(tmp_path_factory: Any, name: str) -> Path:
    """The Hugging Face folder of a golden tiny model, made once a run; do not change it."""
    folder: Path = tmp_path_factory.getbasetemp() / "tiny-models" / name
    if not folder.exists():
        make_tiny_hf.write(folder, make_tiny_hf.MODELS[name])
    return folder


def own_folder(folder: Path, name: str = "tiny-llama", **changes: Any) -> Path:
    """A folder to spoil: a tiny model with config entries changed before its tensors are made."""
    distinct = changes.pop("distinct", False)
    config = MODELS[name] | changes
    if name in OTHER_NAMES:
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(config))
        make_tiny_hf.save_bf16(tiny_models.tensors(config), folder / "model.safetensors")
        return folder
    make_tiny_hf.write(folder, config)
    if distinct:
        for shard in folder.glob("*.safetensors"):
            shard.unlink()
        (folder / "model.safetensors.index.json").unlink()
        make_tiny_hf.save_bf16(_weights(config, distinct), folder / "model.safetensors")
    return folder


def untied_copy(folder: Path, copy: Path) -> Path:
    """A tied model (of one shard) with the embedding written again as its head."""
    shutil.copytree(folder, copy)
    change_config(copy, tie_word_embeddings=False)
    shard = copy / "model.safetensors"
    tensors = _bf16_tensors(shard)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    make_tiny_hf.save_bf16(tensors, shard)
    return copy


def _bf16_tensors(shard: Path) -> dict[str, np.ndarray]:
    """Bits of all tensors of a shard, by name."""
    data = shard.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    out = {}
    for name, facts in json.loads(data[8:end]).items():
        first, last = (end + offset for offset in facts["data_offsets"])
        out[name] = np.frombuffer(data[first:last], np.uint16).reshape(facts["shape"])
    return out


def _weights(config: dict[str, Any], distinct: bool) -> dict[str, np.ndarray]:
    """bf16 bits by Hugging Face names; distinct ones are turned round by a number that depends on the name."""
    if config["model_type"] not in _GOLDEN_TYPES or "attention_bias" in config:
        return tiny_models.tensors(config)
    golden = make_tiny_hf.tensors(config)
    if not distinct:
        return golden
    return {name: np.roll(bits, zlib.crc32(name.encode()) % bits.size) for name, bits in golden.items()}


def change_config(folder: Path, *without: str, **changes: Any) -> None:
    """Change entries of config.json and drop others, leaving the tensors as they are."""
    path = folder / "config.json"
    values = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in values.items() if key not in without}))


def tiny_model_file(path: Path, name: str = "tiny-llama", weights: FloatType = FloatType.Q40, **changes: Any) -> Path:
    """A `.m` file of a golden tiny model, with config entries changed if wanted."""
    folder = own_folder(path.with_name(f"{path.name}.folder"), name, **changes)
    convert_model(open_checkpoint(folder), weights, path, lambda *_: None)
    return path


def tiny_config(name: str = "tiny-llama", **changes: Any) -> ModelConfig:
    """The facts of a golden tiny model, without any file."""
    return read_config(Path(name), MODELS[name] | changes)[0]


def tiny_gguf(path: Path, name: str = "tiny-llama", kind: str = "Q4_0", head_kind: str = "", **changes: Any) -> Path:
    """A GGUF file with the weights of a tiny model and a byte-level tokenizer of 256 bytes and 64 specials.

    `kind` is the type of all matrices, as ggml calls it; K types have random codes and need widths of whole 256
    (`hidden_size=256`). `head_kind` is that of an untied head, `kinds` those of other tensors by the ends of their
    names. `changes` are config.json entries; `experts_apart` gives each expert tensors of its own, as files of early
    2024 have it. With `part_tensors`, the most tensors of a part, the file is split: PATH-00001-of-00003.gguf and so
    on, of which the first is returned.
    """
    distinct, is_apart = changes.pop("distinct", False), changes.pop("experts_apart", False)
    part_tensors, kinds = changes.pop("part_tensors", 0), changes.pop("kinds", {})
    config = MODELS[name] | changes
    writer = gguf.GGUFWriter(path, _GGUF_ARCHS[config["model_type"]], split_max_tensors=part_tensors)
    _add_facts(writer, config)
    add_tokenizer(writer, config["vocab_size"])
    for tensor, values in _gguf_tensors(config, _weights(config, distinct), is_apart).items():
        matrix = values.ndim > 1 and not tensor.endswith("ffn_gate_inp.weight")
        wanted = head_kind if head_kind and tensor == "output.weight" else kind
        wanted = next((other for end, other in kinds.items() if tensor.endswith(f"{end}.weight")), wanted)
        add_gguf_tensor(writer, tensor, values, Kind[wanted] if matrix else Kind.F32)
    finish_gguf(writer)
    return sorted(path.parent.glob(f"{path.stem}-00001-of-*.gguf"))[0] if part_tensors else path


def add_gguf_tensor(writer: gguf.GGUFWriter, name: str, values: np.ndarray, kind: Kind) -> None:
    """float32 values in the given type; types for which the gguf package has no writer get random codes."""
    if kind is Kind.F32:
        writer.add_tensor(name, np.ascontiguousarray(values, np.float32))
        return
    try:
        data = gguf.quants.quantize(np.ascontiguousarray(values), kind)
    except NotImplementedError:
        data = _random_codes(values, kind)
    writer.add_tensor(name, data, raw_dtype=kind)


def finish_gguf(writer: gguf.GGUFWriter) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _random_codes(values: np.ndarray, kind: Kind) -> np.ndarray:
    ours = next(each for each in FloatType if each.ggml_type == kind.value)
    blocks = random_blocks(ours, values.size, float(values.std()), zlib.crc32(values.tobytes()))
    return blocks.reshape(*values.shape[:-1], -1)


def _add_facts(writer: gguf.GGUFWriter, config: dict[str, Any]) -> None:
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_freq_base(float(config["rope_theta"]))
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_vocab_size(config["vocab_size"])
    if n_experts := config.get("num_experts", config.get("num_local_experts")):
        writer.add_expert_count(n_experts)
        writer.add_expert_used_count(config["num_experts_per_tok"])
    if "moe_intermediate_size" in config:
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    if "shared_expert_intermediate_size" in config:
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])
    _add_scaling(writer, config.get("rope_scaling") or {})


def _add_scaling(writer: gguf.GGUFWriter, scaling: dict[str, Any]) -> None:
    """llama3 becomes a tensor."""
    kind = scaling.get("rope_type")
    if kind in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(kind))
        writer.add_rope_scaling_factor(scaling["factor"])
    if kind == "yarn":
        writer.add_rope_scaling_orig_ctx_len(scaling["original_max_position_embeddings"])
        own = 0.1 * math.log(scaling["factor"]) + 1
        writer.add_rope_scaling_attn_factors(scaling.get("attention_factor", own) / own)


def add_tokenizer(writer: gguf.GGUFWriter, vocab_size: int) -> None:
    """All bytes as GPT-2 spells them, then control tokens and two merges; 256 begins and 257 ends a text."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    spelled = {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}
    control = [f"<|{i}|>" for i in range(256, vocab_size - 2)]
    tokens = [spelled[byte] for byte in range(256)] + control + ["th", "he"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([1] * 256 + [3] * len(control) + [1] * 2)
    writer.add_token_merges(["t h", "h e"])
    writer.add_bos_token_id(256)
    writer.add_eos_token_id(257)
    writer.add_add_bos_token(False)


def _gguf_tensors(
    config: dict[str, Any], weights: dict[str, np.ndarray], is_apart: bool = False
) -> dict[str, np.ndarray]:
    """float32 tensors by their GGUF names: llama's q and k in adjacent pairs, experts stacked or each apart."""
    out: dict[str, np.ndarray] = {}
    stacks: dict[str, list[np.ndarray]] = {}
    for name, bits in weights.items():
        values = widen_bf16(bits.reshape(-1)).reshape(bits.shape)
        stem, part = name.rsplit(".", 1)
        if stem in _OUTSIDE_LAYERS:
            out[f"{_OUTSIDE_LAYERS[stem]}.weight"] = values
            continue
        layer, role = stem.removeprefix("model.layers.").split(".", 1)
        if ".experts." in role:
            _, expert, projection = role.rsplit(".", 2)
            role = f"blk.{layer}.ffn_{_EXPERT_PARTS[projection]}"
            if is_apart:
                out[f"{role}.{expert}.weight"] = values
            else:
                stacks.setdefault(f"{role}_exps.weight", []).append(values)
            continue
        if config["model_type"] in _ADJACENT and role in ("self_attn.q_proj", "self_attn.k_proj"):
            halves = values.reshape(-1, 2, config["head_dim"] // 2, values.size // len(values))
            values = halves.swapaxes(1, 2).reshape(values.shape)
        out[f"blk.{layer}.{_IN_LAYERS[role]}.{part}"] = values[0] if role == "mlp.shared_expert_gate" else values
    if (config.get("rope_scaling") or {}).get("rope_type") == "llama3":
        out["rope_freqs.weight"] = np.array(_factors(config), np.float32)
    return out | {name: np.stack(parts) for name, parts in stacks.items()}


def _factors(config: dict[str, Any]) -> tuple[float, ...]:
    facts = read_config(Path("tiny"), config)[0]
    assert facts.rope_scaling is not None
    return facts.rope_scaling.divisors(facts.rope_theta, facts.head_width)
