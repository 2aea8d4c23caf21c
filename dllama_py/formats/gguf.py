"""A GGUF file as a checkpoint: the names tensors have there, and experts inside stacked tensors.

q and k of llama models lie in adjacent-pair order already.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dllama_py.blocks import Floats, FloatType, dequantize
from dllama_py.config import ALWAYS_QKV_BIAS, Arch, ModelConfig
from dllama_py.errors import InputError
from dllama_py.formats.gguf_config import TensorFacts, open_facts, read_config
from dllama_py.formats.gguf_header import MAGIC, GgufTensor
from dllama_py.formats.gguf_names import EMBEDDING, HEAD, ROPE_FACTORS, name_alone, name_of
from dllama_py.formats.gguf_parts import read_gguf, read_metadata
from dllama_py.formats.mapped import MappedCheckpoint, MappedFile, Stored, check_config
from dllama_py.formats.strangers import refuse_stranger
from dllama_py.formats.tensors import TensorSpec, tensor_specs

__all__ = ["MAGIC", "open_gguf", "open_metadata"]

_HARMLESS = re.compile(r"^rope_freqs\.weight$|^blk\.\d+\.(attn_rot_embd|rope_freqs)(\.weight)?$")


def open_gguf(file: MappedFile) -> MappedCheckpoint:
    """A mapped GGUF file, or any part of a split one, as a checkpoint; InputError unless every tensor fits."""
    model = read_gguf(file)
    file, metadata, tensors = model.files[0], model.metadata, model.tensors
    arch, facts = open_facts(file.path, metadata)
    config, omitted = read_config(arch, facts, _tensor_facts(file, arch, tensors))
    check_config(file.path, config)
    stored: dict[str, Stored] = {}
    used: set[str] = set()
    for spec in tensor_specs(config):
        name = _gguf_name(config.arch, spec, tensors)
        stored[spec.name] = _stored(file, config, spec, _found(file, tensors, name))
        used.add(name)
    _refuse_unused(file, config, tensors.keys() - used)
    return MappedCheckpoint(file.path, config, stored, model.files, omitted, metadata=metadata)


def _tensor_facts(file: MappedFile, arch: Arch, tensors: dict[str, GgufTensor]) -> TensorFacts:
    """Biases are those of the first layer; a qwen2 model always has some."""
    return TensorFacts(
        _found(file, tensors, EMBEDDING).shape[0],
        _vector(file, tensors.get(ROPE_FACTORS)),
        has_qkv_bias=arch in ALWAYS_QKV_BIAS or "blk.0.attn_q.bias" in tensors,
        has_o_bias="blk.0.attn_output.bias" in tensors,
    )


def open_metadata(path: Path) -> Mapping[str, Any]:
    """The metadata of a GGUF file, whatever its tensors; InputError if the file is none."""
    file = MappedFile(path)
    refuse_stranger(file)
    if file.read(0, min(4, file.size)) != MAGIC:
        raise InputError(
            f"{path}: is no tokenizer; give a .t file, a tokenizer.json or tokenizer.model, its folder, or a GGUF file"
        )
    return read_metadata(file)


def _gguf_name(arch: Arch, spec: TensorSpec, tensors: dict[str, GgufTensor]) -> str:
    name = name_of(arch, spec)
    if name == HEAD and HEAD not in tensors:
        return EMBEDDING  # tied
    alone = name_alone(arch, spec)
    return alone if alone in tensors else name


def _found(file: MappedFile, tensors: dict[str, GgufTensor], name: str) -> GgufTensor:
    if name not in tensors:
        raise InputError(f"{file.path}: tensor {name} is missing; get another conversion of the model")
    return tensors[name]


def _vector(file: MappedFile, tensor: GgufTensor | None) -> Floats | None:
    if tensor is None:
        return None
    if tensor.kind is not FloatType.F32 or len(tensor.shape) != 1:
        raise InputError(f"{file.path}: {tensor.name} must be an f32 vector; the file is damaged")
    row: Floats = dequantize(tensor.file.view(tensor.offset, tensor.shape[0] * 4).reshape(1, -1), tensor.kind)[0]
    return row


def _stored(file: MappedFile, config: ModelConfig, spec: TensorSpec, tensor: GgufTensor) -> Stored:
    """Where this tensor lies; an expert may be one part of a stack [experts, rows, columns]."""
    is_stack = spec.expert is not None and tensor.name.endswith("_exps.weight")
    expected = (config.n_experts, *spec.shape) if is_stack else spec.shape
    if tensor.name.endswith("_exps.bias"):
        expected = (config.n_experts, spec.shape[0] // config.n_experts)
    if tensor.shape not in (expected, expected[1:] if expected[0] == 1 else expected):
        raise InputError(
            f"{file.path}: {tensor.name} has shape {list(tensor.shape)}, the metadata makes it {list(expected)} "
            f"({config.n_heads} heads of {config.head_width}, {config.n_kv_heads} for keys); one of them is wrong"
        )
    rows, columns = spec.matrix_shape
    part = (spec.expert or 0) if is_stack else 0
    return Stored(tensor.file, tensor.offset + part * rows * tensor.kind.n_bytes(columns), tensor.kind)


def _refuse_unused(file: MappedFile, config: ModelConfig, names: set[str]) -> None:
    unused = sorted(name for name in names if not _HARMLESS.search(name))
    if unused:
        more = f" and {len(unused) - 3} more" if len(unused) > 3 else ""
        raise InputError(
            f"{file.path}: tensors {', '.join(unused[:3])}{more} are no part of a {config.arch} model of "
            f"{config.n_layers} layers; nothing computes them, the model would answer wrongly"
        )
