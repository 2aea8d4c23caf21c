"""The header of a `.m` file: whole-number pairs to and from model facts.

Layout and key numbers are distributed-llama's. It does not know where tensors lie; that is `model_file`.
"""

import struct
from enum import IntEnum
from pathlib import Path
from typing import TypeVar

from dllama_py.blocks import FloatType
from dllama_py.config import Arch, ModelConfig
from dllama_py.errors import InputError
from dllama_py.rope_scaling import Llama3Scaling

MAGIC = b"\xcd\xab\x00\x0a"
PREFIX_BYTES = 8  # magic and header size


class Key(IntEnum):
    """Header keys, in the order in which distributed-llama's converter writes them."""

    VERSION = 0
    ARCH = 1
    HIDDEN_ACT = 11
    WIDTH = 2
    FFN_WIDTH = 3
    N_LAYERS = 4
    N_HEADS = 5
    N_KV_HEADS = 6
    WEIGHTS = 13
    CONTEXT_LENGTH = 10
    VOCAB_SIZE = 9
    N_EXPERTS = 7
    N_ACTIVE_EXPERTS = 8
    ROPE_THETA = 12
    SCALING_FACTOR = 14
    SCALING_LOW = 15
    SCALING_HIGH = 16
    SCALING_ORIGINAL = 17
    ROPE_TYPE = 18
    HEAD_WIDTH = 19
    NORM_EPSILON = 20
    EXPERT_WIDTH = 21


_ARCHS = {0xABCD00: Arch.LLAMA, 0xABCD01: Arch.QWEN3, 0xABCD02: Arch.QWEN3_MOE}
WEIGHT_TYPES = {0: FloatType.F32, 1: FloatType.F16, 2: FloatType.Q40, 3: FloatType.Q80}
_EPSILONS = {5: 1e-5, 6: 1e-6}
_SILU = 1
_ROPE_ADJACENT, _ROPE_HALVES, _ROPE_LLAMA31 = 0, 1, 2
_DEFAULTS = {
    Key.HIDDEN_ACT: _SILU,
    Key.ROPE_THETA: 10000,
    Key.SCALING_FACTOR: 1,
    Key.ROPE_TYPE: _ROPE_ADJACENT,
    Key.NORM_EPSILON: 5,
}
_OPTIONAL = {"rope_theta": Key.ROPE_THETA, "head_width": Key.HEAD_WIDTH, "norm_epsilon": Key.NORM_EPSILON}


def parse_pairs(path: Path, data: bytes) -> dict[Key, int]:
    """The pairs behind the 8-byte prefix; of a repeated key the last counts."""
    pairs: dict[Key, int] = {}
    for number, value in struct.iter_unpack("<ii", data):
        try:
            pairs[Key(number)] = value
        except ValueError:
            raise InputError(
                f"{path}: header key {number} (value {value}) is not known, keys 0 to 21 are; "
                "the file is damaged or newer than this program"
            ) from None
    return pairs


_T = TypeVar("_T")


class _Values:
    """Header values with the defaults of distributed-llama's reader."""

    def __init__(self, path: Path, pairs: dict[Key, int]) -> None:
        self._path = path
        self._pairs = _DEFAULTS | pairs

    def __getitem__(self, key: Key) -> int:
        return self._pairs.get(key, 0)

    def one_of(self, key: Key, choices: dict[int, _T], what: str) -> _T:
        if key not in self._pairs or self[key] not in choices:
            found = f"{what} {self[key]:#x}" if key in self._pairs else f"no {what}"
            raise InputError(f"{self._path}: the header has {found}; known are {', '.join(map(hex, choices))}")
        return choices[self[key]]


def config_from_pairs(path: Path, pairs: dict[Key, int]) -> tuple[ModelConfig, FloatType]:
    """Model facts and the type of all matrices, by the rules of distributed-llama's reader."""

    value = _Values(path, pairs)
    arch = value.one_of(Key.ARCH, _ARCHS, "architecture")
    weights = value.one_of(Key.WEIGHTS, WEIGHT_TYPES, "weights type")
    if value[Key.HIDDEN_ACT] != _SILU:
        raise InputError(f"{path}: activation {value[Key.HIDDEN_ACT]} (gelu is 0) is not computed; only silu (1) is")
    if (arch is Arch.QWEN3_MOE) != (value[Key.N_EXPERTS] > 0):
        raise InputError(f"{path}: {value[Key.N_EXPERTS]} experts do not go with architecture {arch}; convert it again")
    heads = value[Key.N_HEADS]
    config = ModelConfig(
        arch=arch,
        width=value[Key.WIDTH],
        n_layers=value[Key.N_LAYERS],
        n_heads=heads,
        n_kv_heads=value[Key.N_KV_HEADS],
        head_width=value[Key.HEAD_WIDTH] or (value[Key.WIDTH] // heads if heads > 0 else 0),
        ffn_width=value[Key.FFN_WIDTH],
        vocab_size=value[Key.VOCAB_SIZE],
        context_length=value[Key.CONTEXT_LENGTH],
        norm_epsilon=value.one_of(Key.NORM_EPSILON, _EPSILONS, "norm epsilon"),
        rope_theta=float(value[Key.ROPE_THETA]),
        rope_scaling=_scaling(path, arch, value[Key.ROPE_TYPE], [value[key] for key in _SCALING_KEYS]),
        n_experts=value[Key.N_EXPERTS],
        n_active_experts=value[Key.N_ACTIVE_EXPERTS],
        expert_width=value[Key.EXPERT_WIDTH],
    )
    return config, weights


_SCALING_KEYS = (Key.SCALING_FACTOR, Key.SCALING_LOW, Key.SCALING_HIGH, Key.SCALING_ORIGINAL)


def _scaling(path: Path, arch: Arch, rope_type: int, values: list[int]) -> Llama3Scaling | None:
    """Scaling holds where the factor is not 1, whichever of the two adjacent-pair types the file names."""
    factor, low, high, original = values
    if arch is not Arch.LLAMA:  # half-split whatever the file says; distributed-llama would drop a scaling
        if factor != 1:
            raise InputError(f"{path}: RoPE scaling by {factor} in a {arch} model is not computed; convert it again")
        return None
    if rope_type not in (_ROPE_ADJACENT, _ROPE_LLAMA31):
        raise InputError(
            f"{path}: RoPE type {rope_type} in a llama model is not computed, 0 (llama) and 2 (llama 3.1) are; "
            "convert it again from its Hugging Face folder"
        )
    if factor == 1:
        return None
    if factor < 1 or not 0 < low < high or original < 1:
        raise InputError(f"{path}: RoPE scaling {factor}, {low}, {high}, {original} cannot be; the header is damaged")
    return Llama3Scaling(float(factor), float(low), float(high), original)


def omitted_fields(pairs: dict[Key, int]) -> frozenset[str]:
    """Fields of the config that a file with these pairs leaves to a default."""
    return frozenset(name for name, key in _OPTIONAL.items() if key not in pairs)


def header_bytes(path: Path, config: ModelConfig, weights: FloatType, omitted: frozenset[str]) -> bytes:
    """The header as distributed-llama's converter writes it; fields named in `omitted` get no pair."""
    pairs = _pairs(path, config, weights)
    for name in omitted:
        pairs.pop(_OPTIONAL[name], None)
    body = b"".join(struct.pack("<ii", key, pairs[key]) for key in Key if key in pairs)
    return MAGIC + struct.pack("<i", PREFIX_BYTES + len(body)) + body


def _refuse_what_a_header_cannot_say(path: Path, c: ModelConfig) -> None:
    lacking = {
        f"the architecture {c.arch}": c.arch not in _ARCHS.values(),
        "biases": c.has_qkv_bias or c.has_o_bias,
        "a router that weighs all experts": c.weighs_all_experts,
    }
    for what, is_there in lacking.items():
        if is_there:
            raise InputError(f"{path}: a .m file cannot hold {what}; run the model from its own format")


def _pairs(path: Path, c: ModelConfig, weights: FloatType) -> dict[Key, int]:
    _refuse_what_a_header_cannot_say(path, c)
    pairs = {
        Key.VERSION: 0,
        Key.ARCH: next(number for number, arch in _ARCHS.items() if arch is c.arch),
        Key.HIDDEN_ACT: _SILU,
        Key.WIDTH: c.width,
        Key.FFN_WIDTH: c.ffn_width,
        Key.N_LAYERS: c.n_layers,
        Key.N_HEADS: c.n_heads,
        Key.N_KV_HEADS: c.n_kv_heads,
        Key.WEIGHTS: next(number for number, kind in WEIGHT_TYPES.items() if kind is weights),
        Key.CONTEXT_LENGTH: c.context_length,
        Key.VOCAB_SIZE: c.vocab_size,
        Key.N_EXPERTS: c.n_experts,
        Key.N_ACTIVE_EXPERTS: c.n_active_experts,
        Key.ROPE_THETA: _whole(path, "RoPE base", c.rope_theta),
        Key.HEAD_WIDTH: c.head_width,
        Key.NORM_EPSILON: _epsilon_code(path, c.norm_epsilon),
    }
    if c.n_experts:
        pairs[Key.EXPERT_WIDTH] = c.expert_width
    return pairs | _scaling_pairs(path, c)


def _scaling_pairs(path: Path, c: ModelConfig) -> dict[Key, int]:
    match c.rope_scaling:
        case None if not c.rope_factors:
            return {}
        case Llama3Scaling(factor, low, high, original) if c.arch is Arch.LLAMA and not c.rope_factors:
            values = zip(_SCALING_KEYS, (factor, low, high, original), strict=True)
            return {key: _whole(path, "RoPE scaling", x) for key, x in values} | {Key.ROPE_TYPE: _ROPE_LLAMA31}
    raise InputError(f"{path}: a .m file cannot hold this model's RoPE scaling; run it from its own format")


def _whole(path: Path, what: str, value: float) -> int:
    if not 0 <= value < 2**31 or value != int(value):
        raise InputError(
            f"{path}: {what} {value} is not a whole number below 2^31, and a .m file holds no other; "
            "run the model from its own format"
        )
    return int(value)


def _epsilon_code(path: Path, epsilon: float) -> int:
    for code, known in _EPSILONS.items():
        if epsilon == known:
            return code
    raise InputError(
        f"{path}: norm epsilon {epsilon} cannot be written to a .m file, which knows 1e-05 and 1e-06; "
        "run the model from its own format"
    )
