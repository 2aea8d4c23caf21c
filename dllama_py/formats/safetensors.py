"""Safetensors shards: which tensors a folder has and where their bytes lie. No weight is read.

The `safetensors` package checks each header; offsets come from the header itself, because the package hands out
values only, and none of bf16 without torch. It does not know model architectures.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from dllama_py.blocks import FloatType
from dllama_py.errors import InputError
from dllama_py.formats.mapped import MappedFile
from dllama_py.formats.strangers import refuse_stranger_shard

INDEX = "model.safetensors.index.json"
_TYPES = {"BF16": FloatType.BF16, "F16": FloatType.F16, "F32": FloatType.F32}


@dataclass(frozen=True, slots=True)
class ShardTensor:
    """One tensor of a shard; `dtype` is the header's word for the type."""

    file: MappedFile
    offset: int
    dtype: str
    shape: tuple[int, ...]

    def float_type(self, name: str) -> FloatType:
        if self.dtype not in _TYPES:
            raise InputError(
                f"{self.file.path}: {name} has type {self.dtype}, which cannot be read; "
                f"{', '.join(_TYPES)} can, get the unquantised checkpoint"
            )
        return _TYPES[self.dtype]


@dataclass(frozen=True, slots=True)
class Shards:
    """All tensors of a folder by name, and sentences on files that were left alone."""

    tensors: dict[str, ShardTensor]
    files: tuple[MappedFile, ...]
    notes: tuple[str, ...]


def open_shards(folder: Path) -> Shards:
    """The tensors of the folder: by its index if there is one, else all its shards with disjoint names."""
    present = sorted(path for path in folder.glob("*.safetensors") if not path.name.startswith("."))
    index = folder / INDEX
    if index.exists():
        weight_map = _weight_map(index)
        wanted = [folder / name for name in sorted(set(weight_map.values()))]
    else:
        weight_map = {}
        wanted = [path for path in present if not path.name.startswith("consolidated")] or present
    if not wanted:
        raise InputError(f"{folder}: has no .safetensors file; get the safetensors version of the model")
    parts = {path.name: _read_shard(path, index) for path in wanted}
    ignored = [path.name for path in present if path.name not in parts]
    notes = (f"{folder}: {', '.join(ignored)} left alone, not part of the checkpoint",) if ignored else ()
    tensors = _indexed(index, weight_map, parts) if weight_map else _disjoint(folder, parts)
    return Shards(tensors, tuple(_files(parts)), notes)


def _files(parts: dict[str, dict[str, ShardTensor]]) -> Iterable[MappedFile]:
    return (next(iter(tensors.values())).file for tensors in parts.values() if tensors)


def _weight_map(index: Path) -> dict[str, str]:
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map or {type(x) for x in weight_map.values()} != {str}:
        raise InputError(f"{index}: has no weight_map from tensor names to file names; get the file again")
    strange = [name for name in weight_map.values() if Path(name).name != name]
    if strange:
        raise InputError(f"{index}: names the shard {strange[0]!r}, expected a plain file name; get the file again")
    return dict(weight_map)


def _indexed(
    index: Path, weight_map: dict[str, str], parts: dict[str, dict[str, ShardTensor]]
) -> dict[str, ShardTensor]:
    for name, shard in weight_map.items():
        if name not in parts[shard]:
            raise InputError(f"{index}: says {name} is in {shard}, but that shard lacks it; get both files again")
    return {name: parts[shard][name] for name, shard in weight_map.items()}


def _disjoint(folder: Path, parts: dict[str, dict[str, ShardTensor]]) -> dict[str, ShardTensor]:
    tensors: dict[str, ShardTensor] = {}
    for shard, part in parts.items():
        for name, tensor in part.items():
            if name in tensors:
                raise InputError(
                    f"{folder}: {name} is in both {tensors[name].file.path.name} and {shard} and there is no {INDEX} "
                    "to choose by; get the index or remove one of the files"
                )
            tensors[name] = tensor
    return tensors


def _read_shard(path: Path, index: Path) -> dict[str, ShardTensor]:
    if not path.exists():
        raise InputError(f"{path}: the shard is missing, {index.name} names it; get the file")
    file = MappedFile(path)
    refuse_stranger_shard(file)
    try:
        with safe_open(path, framework="np"):  # checks names, shapes and offsets against the file's size
            pass
    except (SafetensorError, OSError) as error:
        raise InputError(f"{path}: is not a sound safetensors file ({error}); get it again") from None
    header_bytes = int.from_bytes(file.read(0, 8), "little")
    header: dict[str, Any] = json.loads(file.read(8, header_bytes))
    header.pop("__metadata__", None)
    return {
        name: ShardTensor(file, 8 + header_bytes + entry["data_offsets"][0], entry["dtype"], tuple(entry["shape"]))
        for name, entry in header.items()
    }


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in this file; InputError if it is anything else."""
    file = MappedFile(path)
    refuse_stranger_shard(file)
    try:
        value = json.loads(file.read(0, file.size))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not JSON ({error}); get the file again") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds no JSON object; get the file again")
    return value
