"""Sizes of well-known models by name: what their config.json says, for models of random weights in their shape.

Names are those of distributed-llama's launcher without the weights type at their end. It knows no weights.
"""

from dataclasses import replace

from dllama_py.config import Arch, ModelConfig
from dllama_py.errors import UsageError
from dllama_py.rope_scaling import Llama3Scaling

_LLAMA_VOCABULARY, _QWEN_VOCABULARY = 128256, 151936


def _scaling(factor: float) -> Llama3Scaling:
    return Llama3Scaling(factor, low_freq_factor=1.0, high_freq_factor=4.0, original_context=8192)


def _llama(width: int, ffn_width: int, layers: int, heads: int, head_width: int, factor: float) -> ModelConfig:
    """Llama 3.1 to 3.3: eight KV heads, RoPE stretched from 8192 positions by `factor`."""
    return ModelConfig(
        arch=Arch.LLAMA,
        width=width,
        n_layers=layers,
        n_heads=heads,
        n_kv_heads=8,
        head_width=head_width,
        ffn_width=ffn_width,
        vocab_size=_LLAMA_VOCABULARY,
        context_length=131072,
        norm_epsilon=1e-5,
        rope_theta=500_000.0,
        rope_scaling=_scaling(factor),
    )


def _qwen3(width: int, ffn_width: int, layers: int, heads: int) -> ModelConfig:
    """Dense Qwen3: eight KV heads, heads 128 wide whatever the width of the model."""
    return ModelConfig(
        arch=Arch.QWEN3,
        width=width,
        n_layers=layers,
        n_heads=heads,
        n_kv_heads=8,
        head_width=128,
        ffn_width=ffn_width,
        vocab_size=_QWEN_VOCABULARY,
        context_length=40960,
        norm_epsilon=1e-6,
        rope_theta=1_000_000.0,
    )


_LLAMA_8B = _llama(4096, 14336, 32, 32, 128, 8.0)

SHAPES = {
    "smollm2_135m": ModelConfig(
        arch=Arch.LLAMA,
        width=576,
        n_layers=30,
        n_heads=9,
        n_kv_heads=3,
        head_width=64,
        ffn_width=1536,
        vocab_size=49152,
        context_length=8192,
        norm_epsilon=1e-5,
        rope_theta=100_000.0,
    ),
    "qwen3_0.6b": _qwen3(1024, 3072, 28, 16),
    "qwen3_1.7b": _qwen3(2048, 6144, 28, 16),
    "qwen3_8b": _qwen3(4096, 12288, 36, 32),
    "qwen3_14b": _qwen3(5120, 17408, 40, 40),
    "qwen3_30b_a3b": replace(
        _qwen3(2048, 6144, 48, 32),
        arch=Arch.QWEN3_MOE,
        n_kv_heads=4,
        n_experts=128,
        n_active_experts=8,
        expert_width=768,
    ),
    "llama3_2_1b_instruct": _llama(2048, 8192, 16, 32, 64, 32.0),
    "llama3_2_3b_instruct": _llama(3072, 8192, 28, 24, 128, 32.0),
    "llama3_1_8b_instruct": _LLAMA_8B,
    "deepseek_r1_distill_llama_8b": _LLAMA_8B,
    "llama3_3_70b_instruct": _llama(8192, 28672, 80, 64, 128, 8.0),
    "llama3_1_405b_instruct": _llama(16384, 53248, 126, 128, 128, 8.0),
}


def shape_named(name: str, n_layers: int | None = None) -> ModelConfig:
    """The facts of a known model (dashes count as underscores), cut to its first `n_layers` layers where given.

    UsageError lists the names if there is none like it, or says how many layers there are.
    """
    config = SHAPES.get(name.replace("-", "_"))
    if config is None:
        raise UsageError(f"no shape {name!r} is known; known are {', '.join(SHAPES)}")
    if n_layers is None:
        return config
    if not 1 <= n_layers <= config.n_layers:
        raise UsageError(
            f"{n_layers} layers of {name} are wanted, it has {config.n_layers}; give 1 to {config.n_layers}"
        )
    return replace(config, n_layers=n_layers)
