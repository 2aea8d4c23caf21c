"""Facts about a model, as every rank must know them: sizes, RoPE, norms, experts.

One value serves all file formats; `formats/` fills it in, nothing changes it afterwards. It travels to the
other ranks as JSON. Run-time wishes (context limit, cache type, exchange type) are not facts of a model and
live elsewhere.
"""

import json
import math
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Arch(StrEnum):
    """Architectures the engine computes; the value is the name users and files know."""

    LLAMA = "llama"
    QWEN3 = "qwen3"
    QWEN3_MOE = "qwen3_moe"


class RopePairs(StrEnum):
    """Which two elements of a head turn together: (2i, 2i+1) or (i, i + E/2)."""

    ADJACENT = "adjacent"
    HALVES = "halves"


@dataclass(frozen=True, slots=True)
class RopeScaling:
    """The llama3 frequency scaling (Llama 3.1 model card); lengths in tokens."""

    factor: float
    low_freq_factor: float
    high_freq_factor: float
    original_context: int

    def divisors(self, theta: float, head_width: int) -> tuple[float, ...]:
        """What each of the E/2 inverse frequencies is divided by: 1 for short waves, `factor` for long ones."""
        return tuple(self.divisor(theta ** (-2 * i / head_width)) for i in range(head_width // 2))

    def divisor(self, frequency: float) -> float:
        """Of one inverse frequency, radians a position."""
        turns = self.original_context * frequency / (2 * math.pi)  # full turns within the original context
        if turns > self.high_freq_factor:
            return 1.0
        if turns < self.low_freq_factor:
            return self.factor
        smooth = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        return 1 / ((1 - smooth) / self.factor + smooth)


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
    rope_factors: tuple[float, ...] | None = None  # E/2 divisors of the inverse frequencies, where a file lists them

    @property
    def rope_pairs(self) -> RopePairs:
        """llama files hold q and k in adjacent-pair order; the qwen3 family keeps half-split order."""
        return RopePairs.ADJACENT if self.arch is Arch.LLAMA else RopePairs.HALVES

    @property
    def has_qk_norm(self) -> bool:
        """Whether query and key heads are normalised before RoPE."""
        return self.arch is not Arch.LLAMA

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
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "ModelConfig":
        fields: dict[str, Any] = json.loads(text)
        scaling = fields.pop("rope_scaling")
        factors = fields.pop("rope_factors")
        fields["arch"] = Arch(fields["arch"])
        return cls(
            **fields,
            rope_scaling=RopeScaling(**scaling) if scaling else None,
            rope_factors=tuple(factors) if factors else None,
        )
