"""Any opened model as a GGUF file with the same bits, for programs that read nothing else.

The blocks of q40 and q80 are GGUF's Q4_0 and Q8_0, so bytes are copied as they are. The file has no vocabulary, only
its size: enough for whoever computes on ids.
"""

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter

from dllama_py.blocks import Bytes, FloatType
from dllama_py.config import Arch, ModelConfig
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.formats.tensors import TensorSpec, tensor_specs

ARCHS = {Arch.LLAMA: "llama", Arch.QWEN3: "qwen3", Arch.QWEN3_MOE: "qwen3moe"}
OUTSIDE_LAYERS = {"embedding": "token_embd", "final_norm": "output_norm", "head": "output"}
IN_LAYERS = {
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "attention_norm": "attn_norm",
    "ffn_norm": "ffn_norm",
    "router": "ffn_gate_inp",
    "gate": "ffn_gate",
    "down": "ffn_down",
    "up": "ffn_up",
}


def write_gguf(checkpoint: Checkpoint, out: Path) -> None:
    """All tensors of the checkpoint; the experts of a layer become one tensor of three dimensions."""
    tensors = _tensors(checkpoint.config)
    writer = GGUFWriter(out, ARCHS[checkpoint.config.arch])
    _add_facts(writer, checkpoint.config)
    factors = _rope_factors(checkpoint.config)
    for name, specs in tensors.items():
        kind = checkpoint.float_type(specs[0])
        stated, n_bytes = _stated_shape(specs, kind), sum(kind.n_bytes(spec.n_elements) for spec in specs)
        writer.add_tensor_info(name, stated, np.dtype(np.uint8), n_bytes, GGMLQuantizationType(kind.ggml_type))
    if factors is not None:
        writer.add_tensor_info("rope_freqs.weight", factors.shape, factors.dtype, factors.nbytes)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for specs in tensors.values():
        writer.write_tensor_data(_bytes_of(checkpoint, specs))
        checkpoint.release()
    if factors is not None:
        writer.write_tensor_data(factors)
    writer.close()


def _tensors(config: ModelConfig) -> dict[str, list[TensorSpec]]:
    """GGUF names with what lies under them: one tensor, or one of each expert."""
    named: dict[str, list[TensorSpec]] = defaultdict(list)
    for spec in tensor_specs(config):
        if spec.layer is None:
            name = OUTSIDE_LAYERS[spec.role]
        else:
            name = f"blk.{spec.layer}.{IN_LAYERS[spec.role]}" + ("_exps" if spec.expert is not None else "")
        named[f"{name}.weight"].append(spec)
    return named


def _stated_shape(specs: Sequence[TensorSpec], kind: FloatType) -> tuple[int, ...]:
    """The shape in bytes, which the writer turns into elements."""
    *rows, columns = specs[0].shape
    experts = () if specs[0].expert is None else (len(specs),)
    return (*experts, *rows, kind.n_bytes(columns))


def _bytes_of(checkpoint: Checkpoint, specs: Sequence[TensorSpec]) -> Bytes:
    parts = [checkpoint.read(spec, 0, spec.matrix_shape[0]) for spec in specs]
    return parts[0] if len(parts) == 1 else np.stack(parts)


def _add_facts(writer: GGUFWriter, config: ModelConfig) -> None:
    writer.add_context_length(config.context_length)
    writer.add_embedding_length(config.width)
    writer.add_block_count(config.n_layers)
    writer.add_feed_forward_length(config.ffn_width)
    writer.add_head_count(config.n_heads)
    writer.add_head_count_kv(config.n_kv_heads)
    writer.add_key_length(config.head_width)
    writer.add_value_length(config.head_width)
    writer.add_rope_dimension_count(config.head_width)
    writer.add_rope_freq_base(config.rope_theta)
    writer.add_layer_norm_rms_eps(config.norm_epsilon)
    if config.n_experts:
        writer.add_expert_count(config.n_experts)
        writer.add_expert_used_count(config.n_active_experts)
        writer.add_expert_feed_forward_length(config.expert_width)
    writer.add_tokenizer_model("none")
    writer.add_vocab_size(config.vocab_size)


def _rope_factors(config: ModelConfig) -> np.ndarray | None:
    """float32 [E/2], where the model stretches RoPE."""
    scaling = config.rope_scaling
    divisors = scaling.divisors(config.rope_theta, config.head_width) if scaling else config.rope_factors
    return None if divisors is None else np.array(divisors, np.float32)
