"""What GGUF metadata say of RoPE: base, factors of the frequencies, and scalings, with llama.cpp's defaults."""

from typing import TypedDict

import numpy as np

from dllama_py.blocks import Floats
from dllama_py.errors import InputError
from dllama_py.formats.gguf_facts import Facts
from dllama_py.rope_scaling import LinearScaling, Llama3Scaling, RopeScaling, YarnScaling, is_ramp, yarn_magnitude

_LLAMA3 = (Llama3Scaling(8.0, 1.0, 4.0, 8192), Llama3Scaling(32.0, 1.0, 4.0, 8192))  # of 3.1 and 3.3; of 3.2
DEFAULT_THETA = 10000.0


class RopeFields(TypedDict):
    """Fields of the config."""

    rope_theta: float
    rope_scaling: RopeScaling | None
    rope_factors: tuple[float, ...] | None


def read_rope(facts: Facts, factors: Floats | None, head_width: int) -> RopeFields:
    """`factors`: the tensor rope_freqs, float32 [E/2]. Those of a known llama3 scaling are given as that scaling, which
    other formats can express.
    """
    theta, scaling = facts.number("rope.freq_base", DEFAULT_THETA), _scaling(facts)
    if factors is None:
        return RopeFields(rope_theta=theta, rope_scaling=scaling, rope_factors=None)
    if factors.shape != (head_width // 2,) or not bool((np.isfinite(factors) & (factors > 0)).all()):
        raise InputError(f"{facts.path}: rope_freqs.weight must hold {head_width // 2} positive numbers; it is damaged")
    if bool((factors == 1).all()):
        return RopeFields(rope_theta=theta, rope_scaling=scaling, rope_factors=None)
    for known in _LLAMA3 if scaling is None and theta > 1 else ():
        expected = np.array(known.divisors(theta, head_width), np.float32)
        if np.allclose(factors, expected, rtol=1e-5, atol=0):
            return RopeFields(rope_theta=theta, rope_scaling=known, rope_factors=None)
    return RopeFields(rope_theta=theta, rope_scaling=scaling, rope_factors=tuple(float(x) for x in factors))


def _scaling(facts: Facts) -> RopeScaling | None:
    """A factor of 0 is none; a factor without a type is linear."""
    kind = facts.get("rope.scaling.type", "linear")
    factor = facts.number("rope.scaling.factor", 0.0) or facts.number("rope.scale_linear", 0.0) or 1.0
    attention = facts.number("rope.scaling.attn_factor", 1.0)
    if not 1 <= factor < 1e6:
        raise facts.error("rope.scaling.factor", factor, "at least 1")
    if kind == "yarn":
        return _yarn(facts, factor, attention)
    if kind not in ("none", "linear"):
        raise facts.error("rope.scaling.type", kind, "none, linear or yarn; llama3 stands in rope_freqs.weight")
    if attention != 1:
        raise facts.error("rope.scaling.attn_factor", attention, f"1 with scaling {kind}")
    return LinearScaling(factor) if kind == "linear" and factor != 1 else None


def _yarn(facts: Facts, factor: float, attention: float) -> YarnScaling:
    """`attention` comes on top of YaRN's own factor for cosines and sines."""
    if facts.number("rope.scaling.yarn_ext_factor", 1.0) != 1:
        raise facts.error("rope.scaling.yarn_ext_factor", facts.get("rope.scaling.yarn_ext_factor", 1.0), "1")
    scaling = YarnScaling(
        factor,
        facts.whole("rope.scaling.original_context_length", 0) or facts.whole("context_length"),
        yarn_magnitude(factor) * attention,
        facts.number("rope.scaling.yarn_beta_fast", 32.0),
        facts.number("rope.scaling.yarn_beta_slow", 1.0),
    )
    if not (0 < scaling.original_context < 2**31 and 0 < scaling.magnitude < 1e6 and is_ramp(scaling)):
        raise facts.error("rope.scaling.type", scaling, "yarn of positive lengths and factors, beta_slow < beta_fast")
    return scaling
