"""GGUF metadata as model facts. Keys are `<architecture>.<fact>`; see ggml's docs/gguf.md."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dllama_py.blocks import Floats
from dllama_py.config import Arch, ModelConfig, RopeScaling
from dllama_py.errors import InputError

_ARCHS = {"llama": Arch.LLAMA, "qwen3": Arch.QWEN3, "qwen3moe": Arch.QWEN3_MOE}
_LLAMA3 = (RopeScaling(8.0, 1.0, 4.0, 8192), RopeScaling(32.0, 1.0, 4.0, 8192))  # of 3.1 and 3.3; of 3.2


class Facts:
    """Typed look-ups of `<architecture>.<fact>`."""

    def __init__(self, path: Path, metadata: Mapping[str, Any], name: str) -> None:
        self.path = path
        self._metadata = metadata
        self._name = name

    def __contains__(self, fact: str) -> bool:
        return f"{self._name}.{fact}" in self._metadata

    def get(self, fact: str, default: Any) -> Any:
        return self._metadata.get(f"{self._name}.{fact}", default)

    def whole(self, fact: str, default: int | None = None) -> int:
        """A whole number; a list with one value for all layers counts as that value."""
        value = self.get(fact, default)
        if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.size and (value == value[0]).all():
            return int(value[0])
        if type(value) is not int:
            raise self.error(fact, value, "a whole number, the same for all layers")
        return value

    def number(self, fact: str, default: float | None = None) -> float:
        """A float as the shortest decimal that gives the float32 of the file: 1e-05, not 9.99999974e-06."""
        value = self.get(fact, default)
        if type(value) not in (int, float):
            raise self.error(fact, value, "a number")
        return float(str(np.float32(value)))

    def error(self, fact: str, found: object, expected: str) -> InputError:
        shown = "missing" if found is None else str(found)[:60].replace("\n", " ")
        return InputError(f"{self.path}: {self._name}.{fact} is {shown}, expected {expected}")


def open_facts(path: Path, metadata: Mapping[str, Any]) -> tuple[Arch, Facts]:
    """The architecture and its facts; InputError for another one and for adapters."""
    name = metadata.get("general.architecture", "missing")
    if metadata.get("general.type", "model") != "model":
        raise InputError(f"{path}: holds a {metadata['general.type']}, not a model; give the model's own file")
    if type(name) is not str or name not in _ARCHS:
        raise InputError(f"{path}: architecture {str(name)[:40]!r} is not supported; {', '.join(_ARCHS)} are")
    return _ARCHS[name], Facts(path, metadata, name)


def read_config(
    arch: Arch, facts: Facts, vocab_size: int, factors: Floats | None
) -> tuple[ModelConfig, frozenset[str]]:
    """Model facts, and the names of those that the file leaves to a default.

    `vocab_size` is the number of embedding rows, `factors` the tensor rope_freqs, float32 [E/2].
    """
    heads, width = facts.whole("attention.head_count"), facts.whole("embedding_length")
    head_width = facts.whole("attention.key_length", width // max(heads, 1))
    moe = arch is Arch.QWEN3_MOE
    _refuse_what_is_not_computed(arch, facts, head_width)
    config = ModelConfig(
        arch=arch,
        width=width,
        n_layers=facts.whole("block_count"),
        n_heads=heads,
        n_kv_heads=facts.whole("attention.head_count_kv", heads),
        head_width=head_width,
        ffn_width=facts.whole("feed_forward_length", 0 if moe else None),
        vocab_size=vocab_size,
        context_length=_context_length(facts),
        norm_epsilon=facts.number("attention.layer_norm_rms_epsilon"),
        rope_theta=facts.number("rope.freq_base", 10000.0),
        n_experts=facts.whole("expert_count") if moe else 0,
        n_active_experts=facts.whole("expert_used_count") if moe else 0,
        expert_width=facts.whole("expert_feed_forward_length") if moe else 0,
        **_rope_factors(facts, factors, head_width),
    )
    stated = {"rope_theta": "rope.freq_base", "head_width": "attention.key_length"}
    return config, frozenset(name for name, fact in stated.items() if fact not in facts)


def _refuse_what_is_not_computed(arch: Arch, facts: Facts, head_width: int) -> None:
    if arch is not Arch.QWEN3_MOE and facts.whole("expert_count", 0):
        raise facts.error("expert_count", facts.get("expert_count", 0), "none: mixtures work for qwen3moe only")
    for fact in ("attention.value_length", "rope.dimension_count"):
        if facts.whole(fact, head_width) != head_width:
            raise facts.error(fact, facts.get(fact, None), f"the head width {head_width}")
    kind, factor = facts.get("rope.scaling.type", "none"), facts.number("rope.scaling.factor", 1.0)
    if kind not in ("none", "linear") or (kind == "linear" and factor != 1):
        raise facts.error("rope.scaling.type", f"{kind} by {factor}", "none, or llama3 factors as a tensor")
    if facts.number("rope.scale_linear", 1.0) != 1:
        raise facts.error("rope.scale_linear", facts.get("rope.scale_linear", None), "1")


def _context_length(facts: Facts) -> int:
    """Within an attention window sliding and full attention are the same, so the window limits the context."""
    context = facts.whole("context_length")
    window = facts.whole("attention.sliding_window", 0)
    return min(context, window) if window > 0 else context


def _rope_factors(facts: Facts, factors: Floats | None, head_width: int) -> dict[str, Any]:
    """Factors of a known llama3 scaling are given as that scaling, which other formats can express."""
    if factors is None:
        return {}
    if factors.shape != (head_width // 2,) or not bool((np.isfinite(factors) & (factors > 0)).all()):
        raise InputError(f"{facts.path}: rope_freqs.weight must hold {head_width // 2} positive numbers; it is damaged")
    if bool((factors == 1).all()):
        return {}
    theta = facts.number("rope.freq_base", 10000.0)
    for scaling in _LLAMA3:
        expected = np.array(scaling.divisors(theta, head_width), np.float32)
        if np.allclose(factors, expected, rtol=1e-5, atol=0):
            return {"rope_scaling": scaling}
    return {"rope_factors": tuple(float(x) for x in factors)}
