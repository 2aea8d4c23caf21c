"""Any opened checkpoint as a GGUF file with the same bytes, for this program and others.

Blocks of weights are those of ggml, so they are copied as they are. The file has no vocabulary, only its size: enough
for whoever computes on ids.
"""

import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from dllama_py.blocks import Bytes, FloatType
from dllama_py.config import Arch, ModelConfig
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.formats.complete_file import complete_or_gone
from dllama_py.formats.gguf_header import MAGIC
from dllama_py.formats.gguf_names import ROPE_FACTORS, name_of
from dllama_py.formats.tensors import TensorSpec, tensor_specs
from dllama_py.progress import Progress, Work, unwatched

VERSION, ALIGNMENT = 3, 32
NO_VOCABULARY = "none"  # as llama.cpp knows it
_ARCHS = {Arch.LLAMA: "llama", Arch.QWEN3: "qwen3", Arch.QWEN3_MOE: "qwen3moe"}
_UINT32, _FLOAT32, _STRING = 4, 6, 8
_CHUNK_BYTES = 1 << 24

Value = str | int | float
Tensors = dict[str, list[TensorSpec]]


def write_gguf(checkpoint: Checkpoint, out: Path, on_progress: Progress = unwatched) -> None:
    """All tensors of the checkpoint, which is there whole in the end or not at all; the experts of a layer become one
    tensor of three dimensions. UsageError for an architecture that it cannot write, or where the disk has no room.
    """
    config = checkpoint.config
    if config.arch not in _ARCHS:
        raise UsageError(f"{config.arch} models are not written as GGUF; {', '.join(_ARCHS)} are")
    tensors, factors = _tensors(config), _rope_factors(config)
    header = _header(checkpoint, tensors, factors)
    sizes = [_padded(_n_bytes(checkpoint, specs)) for specs in tensors.values()]
    total = len(header) + sum(sizes)
    work, written = Work(f"writing {out.name}", total), len(header)
    with complete_or_gone(out, total) as file:
        file.write(header)
        for (name, specs), size in zip(tensors.items(), sizes, strict=True):
            n_bytes = 0
            for chunk in _chunks(checkpoint, specs):
                file.write(chunk.data)
                n_bytes += chunk.nbytes
                on_progress(work, written + n_bytes, name)
            file.write(bytes(size - n_bytes))
            written += size
            checkpoint.release()
        on_progress(work, total, "")


def _tensors(config: ModelConfig) -> Tensors:
    """Names with what lies under them: one tensor, or one of each expert."""
    named: Tensors = {}
    for spec in tensor_specs(config):
        named.setdefault(name_of(config.arch, spec), []).append(spec)
    return named


def _chunks(checkpoint: Checkpoint, specs: Sequence[TensorSpec]) -> Iterator[Bytes]:
    for spec in specs:
        rows, columns = spec.matrix_shape
        step = max(1, _CHUNK_BYTES // checkpoint.float_type(spec).n_bytes(columns))
        for start in range(0, rows, step):
            yield np.ascontiguousarray(checkpoint.read(spec, start, min(start + step, rows)))


def _n_bytes(checkpoint: Checkpoint, specs: Sequence[TensorSpec]) -> int:
    return sum(checkpoint.float_type(spec).n_bytes(spec.n_elements) for spec in specs)


def _header(checkpoint: Checkpoint, tensors: Tensors, factors: Bytes | None) -> bytes:
    """Everything before the first tensor's bytes. The divisors of RoPE's frequencies, being few, come with it."""
    entries, offset = [], 0
    if factors is not None:
        entries.append(_entry(ROPE_FACTORS, (factors.size // 4,), FloatType.F32, offset))
        offset += _padded(factors.nbytes)
    for name, specs in tensors.items():
        experts = () if specs[0].expert is None else (len(specs),)
        entries.append(_entry(name, (*experts, *specs[0].shape), checkpoint.float_type(specs[0]), offset))
        offset += _padded(_n_bytes(checkpoint, specs))
    facts = [_fact(key, value) for key, value in _facts(checkpoint.config).items()]
    head = MAGIC + struct.pack("<IQQ", VERSION, len(entries), len(facts)) + b"".join([*facts, *entries])
    data = b"" if factors is None else factors.tobytes().ljust(_padded(factors.nbytes), b"\0")
    return head.ljust(_padded(len(head)), b"\0") + data


def _facts(config: ModelConfig) -> dict[str, Value]:
    arch = _ARCHS[config.arch]
    own: dict[str, Value] = {
        "context_length": config.context_length,
        "embedding_length": config.width,
        "block_count": config.n_layers,
        "feed_forward_length": config.ffn_width,
        "attention.head_count": config.n_heads,
        "attention.head_count_kv": config.n_kv_heads,
        "attention.key_length": config.head_width,
        "attention.value_length": config.head_width,
        "attention.layer_norm_rms_epsilon": config.norm_epsilon,
        "rope.dimension_count": config.head_width,
        "rope.freq_base": float(config.rope_theta),
        "vocab_size": config.vocab_size,
    }
    if config.n_experts:
        own["expert_count"] = config.n_experts
        own["expert_used_count"] = config.n_active_experts
        own["expert_feed_forward_length"] = config.expert_width
    named = {f"{arch}.{key}": value for key, value in own.items()}
    return {"general.architecture": arch, "tokenizer.ggml.model": NO_VOCABULARY} | named


def _rope_factors(config: ModelConfig) -> Bytes | None:
    """float32 [E/2] as bytes, where the model stretches RoPE."""
    scaling = config.rope_scaling
    divisors = scaling.divisors(config.rope_theta, config.head_width) if scaling else config.rope_factors
    return None if divisors is None else np.array(divisors, np.float32).view(np.uint8)


def _entry(name: str, shape: Sequence[int], kind: FloatType, offset: int) -> bytes:
    """Of one tensor; GGUF names the columns first."""
    sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
    return _text(name) + sizes + struct.pack("<IQ", kind.ggml_type, offset)


def _fact(key: str, value: Value) -> bytes:
    match value:
        case str():
            return _text(key) + struct.pack("<I", _STRING) + _text(value)
        case float():
            return _text(key) + struct.pack("<If", _FLOAT32, value)
        case _:
            return _text(key) + struct.pack("<II", _UINT32, value)


def _text(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack("<Q", len(encoded)) + encoded


def _padded(n_bytes: int) -> int:
    return -(-n_bytes // ALIGNMENT) * ALIGNMENT
