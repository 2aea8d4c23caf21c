"""What a config.json says of RoPE: the base, and scalings with transformers' defaults."""

from collections.abc import Callable

from dllama_py.config import Arch
from dllama_py.errors import InputError
from dllama_py.formats.config_json import ConfigJson
from dllama_py.rope_scaling import LinearScaling, Llama3Scaling, RopeScaling, YarnScaling, is_ramp, yarn_magnitude

DEFAULT_THETA = 10000.0  # of llama and mistral; no qwen model should do without its own
_ARCHS_WITH_A_DEFAULT_THETA = frozenset({Arch.LLAMA, Arch.MIXTRAL})


def read_rope(config: ConfigJson, arch: Arch) -> tuple[float | None, RopeScaling | None]:
    """Base and scaling from the nested `rope_parameters` or from the older `rope_theta` and `rope_scaling`.

    Where both stand there transformers takes `rope_scaling`, and no base from beside it; what contradicts is refused.
    """
    nested, older = config.part("rope_parameters"), config.part("rope_scaling")
    context = config.whole("max_position_embeddings")
    theta = _theta(config, arch)
    scaling = _scaling(older if older.values else nested, context)
    if older.values and nested.values and _scaling(nested, context) not in (None, scaling):
        raise config.error("rope_scaling", "the same scaling as in rope_parameters, or only one of the two")
    return theta, scaling


def _theta(config: ConfigJson, arch: Arch) -> float | None:
    """The base, None where the architecture's default is meant."""
    nested, older = config.part("rope_parameters"), config.part("rope_scaling")
    stated = [part for part in (nested, older, config) if part.get("rope_theta") is not None]
    thetas = {part.number("rope_theta") for part in stated}
    if len(thetas) > 1:
        raise config.error("rope_theta", f"the same as in rope_parameters, {stated[0].number('rope_theta')}")
    has_default = arch in _ARCHS_WITH_A_DEFAULT_THETA
    if not thetas and not has_default:
        raise config.error("rope_theta", f"the RoPE base, here or in rope_parameters, for {arch} has no common default")
    if older.values and stated == [nested] and not (has_default and thetas == {DEFAULT_THETA}):
        raise config.error(
            "rope_theta", f"{thetas.pop()} as in rope_parameters, which does not count where rope_scaling is given"
        )
    return thetas.pop() if thetas else None


def _scaling(part: ConfigJson, context: int) -> RopeScaling | None:
    """`context` is the model's where the scaling does not name the original one."""
    kind = part.get("rope_type", part.get("type", "default" if "factor" not in part.values else "missing"))
    if part.number("partial_rotary_factor", 1.0) != 1:
        raise part.error("partial_rotary_factor", "1, RoPE over the whole head")
    nested = [key for key, value in part.values.items() if type(value) is dict]
    if nested or kind not in _READERS:
        found = f"per layer kind ({', '.join(nested)})" if nested else repr(kind)
        raise InputError(f"{part.path}: RoPE scaling {found} is not supported; {', '.join(map(repr, _READERS))} are")
    return _READERS[kind](part, context)


def _default(part: ConfigJson, context: int) -> None:
    """No scaling."""


def _linear(part: ConfigJson, context: int) -> LinearScaling | None:
    factor = _factor(part)
    return LinearScaling(factor) if factor != 1 else None


def _llama3(part: ConfigJson, context: int) -> Llama3Scaling:
    scaling = Llama3Scaling(
        factor=_factor(part),
        low_freq_factor=part.number("low_freq_factor"),
        high_freq_factor=part.number("high_freq_factor"),
        original_context=part.whole("original_max_position_embeddings"),
    )
    if not 0 < scaling.low_freq_factor < scaling.high_freq_factor:
        raise part.error("low_freq_factor", "more than 0 and less than high_freq_factor")
    if not 0 < scaling.original_context < 2**31:
        raise part.error("original_max_position_embeddings", "a positive number of tokens")
    return scaling


def _yarn(part: ConfigJson, context: int) -> YarnScaling:
    scaling = YarnScaling(
        factor=_factor(part),
        original_context=part.whole("original_max_position_embeddings", context),
        magnitude=_yarn_magnitude(part),
        beta_fast=part.number("beta_fast", 32.0),
        beta_slow=part.number("beta_slow", 1.0),
        truncate=bool(part.get("truncate", True)),
    )
    if not (0 < scaling.original_context < 2**31 and is_ramp(scaling)):
        raise part.error("beta_slow", "more than 0 and less than beta_fast, over a positive original context")
    return scaling


def _yarn_magnitude(part: ConfigJson) -> float:
    """As it is given, or YaRN's own, or the quotient that DeepSeek's models ask for."""
    if part.get("attention_factor") is not None:
        given = part.number("attention_factor")
        if not 0 < given < 1e6:
            raise part.error("attention_factor", "a positive number")
        return given
    factor, weight, weight_of_all = _factor(part), part.number("mscale", 0.0), part.number("mscale_all_dim", 0.0)
    if not (0 <= weight < 1e6 and 0 <= weight_of_all < 1e6):
        raise part.error("mscale", "like mscale_all_dim not negative")
    if weight and weight_of_all:
        return yarn_magnitude(factor, weight) / yarn_magnitude(factor, weight_of_all)
    return yarn_magnitude(factor)


def _factor(part: ConfigJson) -> float:
    factor = part.number("factor")
    if not 1 <= factor < 1e6:
        raise part.error("factor", "at least 1")
    return factor


_READERS: dict[object, Callable[[ConfigJson, int], RopeScaling | None]] = {
    "default": _default,
    "linear": _linear,
    "llama3": _llama3,
    "yarn": _yarn,
}
