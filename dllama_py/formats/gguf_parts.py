"""A GGUF model as one: from a single file, or from all parts of a split one, whichever of them was given.

llama.cpp's `llama-gguf-split` names parts MODEL-00001-of-00003.gguf and writes `split.no` (from 0), `split.count` and
`split.tensors.count` into each; only the first has the model's metadata. This module does not know what a model is.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dllama_py.errors import InputError
from dllama_py.formats.gguf_header import MAGIC, GgufTensor, Header, read_header
from dllama_py.formats.mapped import MappedFile
from dllama_py.formats.strangers import refuse_stranger_shard

_NAME = re.compile(r"(.+)-(\d{5})-of-(\d{5})(\.gguf)", re.IGNORECASE)
_NUMBER, _COUNT, _N_TENSORS = "split.no", "split.count", "split.tensors.count"


@dataclass(frozen=True, slots=True)
class GgufModel:
    """Metadata of the first file, tensors of all; `files` in their order."""

    metadata: Mapping[str, Any]
    tensors: dict[str, GgufTensor]
    files: tuple[MappedFile, ...]


def read_gguf(file: MappedFile) -> GgufModel:
    """The model that a mapped GGUF file holds or is a part of; InputError where a part is missing or of another."""
    header = read_header(file)
    count = _whole(file, header, _COUNT, 1)
    if count <= 1:
        return GgufModel(header.metadata, header.tensors, (file,))
    headers = [_read_part(path, number, count) for number, path in enumerate(_part_paths(file, header, count))]
    return _joined(headers)


def read_metadata(file: MappedFile) -> Mapping[str, Any]:
    """Of a part of a split model the metadata of the first part."""
    header = read_header(file)
    count = _whole(file, header, _COUNT, 1)
    if count <= 1 or _whole(file, header, _NUMBER) == 0:
        return header.metadata
    return _read_part(_part_paths(file, header, count)[0], 0, count).metadata


def _part_paths(file: MappedFile, header: Header, count: int) -> list[Path]:
    """Where all parts lie if this is one of them; its name must say so."""
    _refuse_concatenated(file, header)
    number = _whole(file, header, _NUMBER)
    named = _NAME.fullmatch(file.path.name)
    if named is None or (int(named[2]), int(named[3])) != (number + 1, count):
        ending = f"-{number + 1:05}-of-{count:05}.gguf"
        raise InputError(f"{file.path}: is part {number + 1} of {count}; its name must end in {ending}, as others' do")
    return [file.path.with_name(f"{named[1]}-{part + 1:05}-of-{count:05}{named[4]}") for part in range(count)]


def _read_part(path: Path, number: int, count: int) -> Header:
    if not path.is_file():
        raise InputError(f"{path}: part {number + 1} of {count} is missing; put all parts of a model into one folder")
    file = MappedFile(path)
    refuse_stranger_shard(file)
    if file.read(0, min(4, file.size)) != MAGIC:
        raise InputError(f"{path}: is no GGUF file, expected part {number + 1} of {count}; get it again")
    header = read_header(file)
    _refuse_concatenated(file, header)
    found = _whole(file, header, _NUMBER, 0) + 1, _whole(file, header, _COUNT, 1)
    if found != (number + 1, count):
        raise InputError(
            f"{path}: is part {found[0]} of {found[1]} of another model, expected part {number + 1} of {count}; "
            "get all parts again"
        )
    return header


def _refuse_concatenated(file: MappedFile, header: Header) -> None:
    end = max((tensor.end for tensor in header.tensors.values()), default=header.data_start)
    end = -(-end // header.alignment) * header.alignment
    if file.size >= end + len(MAGIC) and file.read(end, len(MAGIC)) == MAGIC:
        raise InputError(
            f"{file.path}: has another part behind its first, as `cat` joins them; give the parts as they are, "
            "or join them with llama-gguf-split --merge"
        )


def _joined(headers: list[Header]) -> GgufModel:
    first, tensors = headers[0], dict(headers[0].tensors)
    for header in headers[1:]:
        _refuse_foreign(first, header)
        for name, tensor in header.tensors.items():
            if name in tensors:
                raise InputError(
                    f"{header.file.path}: has tensor {name!r}, as {tensors[name].file.path.name} does; "
                    "it is of another model, get all parts again"
                )
            tensors[name] = tensor
    total = _whole(first.file, first, _N_TENSORS, len(tensors))
    if total != len(tensors):
        raise InputError(
            f"{first.file.path}: its parts have {len(tensors)} tensors together, expected {total}; "
            "they are not of one model, get all parts again"
        )
    return GgufModel(first.metadata, tensors, tuple(header.file for header in headers))


def _refuse_foreign(first: Header, part: Header) -> None:
    """What a part says about its model must be what the first one says."""
    for key in (_N_TENSORS, "general.architecture", "general.name", "general.alignment"):
        ours, theirs = first.metadata.get(key), part.metadata.get(key)
        if key in first.metadata and key in part.metadata and ours != theirs:
            raise InputError(
                f"{part.file.path}: says {key} {theirs!s:.60}, {first.file.path.name} says {ours!s:.60}; "
                "they are not of one model, get all parts again"
            )


def _whole(file: MappedFile, header: Header, key: str, default: int | None = None) -> int:
    value = header.metadata.get(key, default)
    if type(value) is not int or value < 0:
        raise InputError(f"{file.path}: {key} is {value!s:.60}, expected a whole number; the file is damaged")
    return value
