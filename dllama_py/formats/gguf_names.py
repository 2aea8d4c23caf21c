"""What tensors are called in GGUF files."""

from dllama_py.config import Arch
from dllama_py.formats.tensors import TensorSpec

EMBEDDING, HEAD, ROPE_FACTORS = "token_embd.weight", "output.weight", "rope_freqs.weight"
_OUTSIDE_LAYERS = {"embedding": EMBEDDING, "final_norm": "output_norm.weight", "head": HEAD}
_IN_LAYERS = {
    "q": "attn_q",
    "k": "attn_k",
    "v": "attn_v",
    "o": "attn_output",
    "q_bias": "attn_q",
    "k_bias": "attn_k",
    "v_bias": "attn_v",
    "o_bias": "attn_output",
    "gate": "ffn_gate",
    "down": "ffn_down",
    "up": "ffn_up",
    "router": "ffn_gate_inp",
    "shared_router": "ffn_gate_inp_shexp",
    "shared_gate": "ffn_gate_shexp",
    "shared_down": "ffn_down_shexp",
    "shared_up": "ffn_up_shexp",
    "q_norm": "attn_q_norm",
    "k_norm": "attn_k_norm",
    "attention_norm": "attn_norm",
    "ffn_norm": "ffn_norm",
    "attention_post_norm": "post_attention_norm",
    "ffn_post_norm": "post_ffw_norm",
    "sinks": "attn_sinks",
    "router_bias": "ffn_gate_inp",
    "gate_bias": "ffn_gate_exps",
    "down_bias": "ffn_down_exps",
    "up_bias": "ffn_up_exps",
}
_IN_GPT_OSS_LAYERS = _IN_LAYERS | {"ffn_norm": "post_attention_norm"}


def name_of(arch: Arch, spec: TensorSpec) -> str:
    """All experts of a layer lie in one tensor."""
    if spec.layer is None:
        return _OUTSIDE_LAYERS[spec.role]
    if spec.expert is not None:
        return f"{_stem(arch, spec)}_exps.weight"
    return f"{_stem(arch, spec)}.{'bias' if spec.role.endswith('_bias') else 'weight'}"


def name_alone(arch: Arch, spec: TensorSpec) -> str | None:
    """Of an expert that has a tensor of its own, as in files of early 2024."""
    return None if spec.expert is None else f"{_stem(arch, spec)}.{spec.expert}.weight"


def _stem(arch: Arch, spec: TensorSpec) -> str:
    names = _IN_GPT_OSS_LAYERS if arch is Arch.GPT_OSS else _IN_LAYERS
    return f"blk.{spec.layer}.{names[spec.role]}"
