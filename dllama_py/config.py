"""Facts about a model, as every rank must know them: sizes, RoPE, norms, experts.

One value serves all file formats; `formats/` fills it in, nothing changes it afterwards. It travels to the
other ranks as JSON. Run-time wishes (context limit, cache type, exchange type) are not facts of a model and
live elsewhere.
"""

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from dllama_py.rope_scaling import RopeScaling, from_fields, to_fields


class Arch(StrEnum):
    """Architectures the engine computes; the value is the name users and files know."""

    LLAMA = "llama"
    MIXTRAL = "mixtral"
    QWEN2 = "qwen2"
    QWEN2_MOE = "qwen2_moe"
    QWEN3 = "qwen3"
    QWEN3_MOE = "qwen3_moe"
    GEMMA3 = "gemma3"
    GPT_OSS = "gpt_oss"


MIXTURES = frozenset({Arch.MIXTRAL, Arch.QWEN2_MOE, Arch.QWEN3_MOE, Arch.GPT_OSS})
ALWAYS_QKV_BIAS = frozenset({Arch.QWEN2, Arch.QWEN2_MOE})
_ADJACENT_PAIRS = frozenset({Arch.LLAMA, Arch.MIXTRAL})
_QK_NORMS = frozenset({Arch.QWEN3, Arch.QWEN3_MOE, Arch.GEMMA3})
_GEMMA3_27B_LAYERS = 62


class RopePairs(StrEnum):
    """Which two elements of a head turn together: (2i, 2i+1) or (i, i + E/2)."""

    ADJACENT = "adjacent"
    HALVES = "halves"


class Activation(StrEnum):
    """What a feed-forward makes of gate and up."""

    SILU = "silu"  # silu(gate) * up
    GELU = "gelu"  # gelu(gate) * up, in the tanh form
    CLAMPED_SWIGLU = "clamped_swiglu"  # gpt-oss's own


_ACTIVATIONS = {Arch.GEMMA3: Activation.GELU, Arch.GPT_OSS: Activation.CLAMPED_SWIGLU}


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Sizes are element counts of the whole model, not of one rank's share."""

    arch: Arch
    width: int
    n_layers: int
    n_heads: int
    n_kv_heads: int
    head_width: int
    ffn_width: int  # of the dense feed-forward; kept but unused where there are experts
    vocab_size: int
    context_length: int  # tokens
    norm_epsilon: float
    rope_theta: float
    rope_scaling: RopeScaling | None = None
    n_experts: int = 0
    n_active_experts: int = 0
    expert_width: int = 0
    shared_width: int = 0  # feed-forward columns of the expert that every token uses; 0: there is none
    weighs_all_experts: bool = False  # the router's softmax is over all experts, not over the chosen ones
    has_qkv_bias: bool = False
    has_o_bias: bool = False
    rope_factors: tuple[float, ...] | None = None  # E/2 divisors of the inverse frequencies, where a file lists them
    windows: tuple[int, ...] = ()  # positions that each layer sees at most, 0: all; no entries: all layers see all
    window_rope_theta: float | None = None  # of layers with a window, where theirs is another; they are not scaled

    @property
    def rope_pairs(self) -> RopePairs:
        """llama files hold q and k in adjacent-pair order; all others keep half-split order."""
        return RopePairs.ADJACENT if self.arch in _ADJACENT_PAIRS else RopePairs.HALVES

    @property
    def has_qk_norm(self) -> bool:
        """Whether query and key heads are normalised before RoPE."""
        return self.arch in _QK_NORMS

    @property
    def has_post_norms(self) -> bool:
        """Whether what attention and feed-forward give is normed before it is added to the residual stream."""
        return self.arch is Arch.GEMMA3

    @property
    def has_sinks(self) -> bool:
        """Whether each query head has a score without a value, which takes its part of the attention."""
        return self.arch is Arch.GPT_OSS

    @property
    def has_mixture_bias(self) -> bool:
        """Whether the router and all experts have biases."""
        return self.arch is Arch.GPT_OSS

    @property
    def activation(self) -> Activation:
        return _ACTIVATIONS.get(self.arch, Activation.SILU)

    @property
    def score_width(self) -> int:
        """Attention's scores are divided by its square root: the head width, but for the largest gemma3."""
        if self.arch is Arch.GEMMA3 and self.n_layers == _GEMMA3_27B_LAYERS:
            return self.width // self.n_heads
        return self.head_width

    @property
    def embedding_square(self) -> int:
        """Embedded rows are multiplied by its square root."""
        return self.width if self.arch is Arch.GEMMA3 else 1

    def window_of(self, layer: int) -> int:
        """Positions that a row of the layer sees at most, its own included; 0: all."""
        return self.windows[layer] if self.windows else 0

    @property
    def q_width(self) -> int:
        """Outputs of the query projection, H * E."""
        return self.n_heads * self.head_width

    @property
    def kv_width(self) -> int:
        """Outputs of the key (and of the value) projection, K * E."""
        return self.n_kv_heads * self.head_width

    @property
    def hidden_width(self) -> int:
        """Feed-forward columns F of one expert, or of the dense layer."""
        return self.expert_width if self.n_experts else self.ffn_width

    def to_json(self) -> str:
        return json.dumps(asdict(self) | {"rope_scaling": self.rope_scaling and to_fields(self.rope_scaling)})

    @classmethod
    def from_json(cls, text: str) -> "ModelConfig":
        fields: dict[str, Any] = json.loads(text)
        scaling, factors = fields["rope_scaling"], fields["rope_factors"]
        fields["arch"] = Arch(fields["arch"])
        fields["rope_scaling"] = from_fields(scaling) if scaling else None
        fields["rope_factors"] = tuple(factors) if factors else None
        fields["windows"] = tuple(fields["windows"])
        return cls(**fields)
