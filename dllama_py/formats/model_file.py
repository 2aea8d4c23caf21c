"""The `.m` file of distributed-llama: opening one, and the order in which its bytes follow the header.

Layout: header, then every tensor of `tensor_specs` back to back without names or padding. Matrices have the
weights type of the header, all other tensors are f32.
"""

import struct

from dllama_py.blocks import FloatType
from dllama_py.config import ModelConfig
from dllama_py.errors import InputError
from dllama_py.formats.mapped import MappedCheckpoint, MappedFile, Stored, check_config, check_rows
from dllama_py.formats.model_header import MAGIC, PREFIX_BYTES, config_from_pairs, omitted_fields, parse_pairs
from dllama_py.formats.tensors import TensorSpec, tensor_specs

__all__ = ["MAGIC", "open_model_file", "stored_type"]


def stored_type(spec: TensorSpec, weights: FloatType) -> FloatType:
    """The type a tensor has in a `.m` file of this weights type."""
    return weights if spec.is_matrix else FloatType.F32


def open_model_file(file: MappedFile) -> MappedCheckpoint:
    """A mapped `.m` file as a checkpoint; InputError unless header and size agree to the byte."""
    header_size = _header_size(file)
    pairs = parse_pairs(file.path, file.read(PREFIX_BYTES, header_size - PREFIX_BYTES))
    config, weights = config_from_pairs(file.path, pairs)
    check_config(file.path, config)
    return MappedCheckpoint(
        path=file.path,
        config=config,
        stored=_places(file, config, weights, header_size),
        files=(file,),
        omitted=omitted_fields(pairs),
    )


def _header_size(file: MappedFile) -> int:
    (size,) = struct.unpack("<i", file.read(4, 4))
    if size < PREFIX_BYTES or (size - PREFIX_BYTES) % 8:
        raise InputError(f"{file.path}: header size {size} at offset 4, expected 8 + 8 * pairs; the file is damaged")
    return int(size)


def _places(file: MappedFile, config: ModelConfig, weights: FloatType, offset: int) -> dict[str, Stored]:
    stored = {}
    for spec in tensor_specs(config):
        kind = stored_type(spec, weights)
        stored[spec.name] = Stored(file, offset, kind)
        offset += check_rows(file.path, spec, kind)
        if offset > file.size:
            raise InputError(
                f"{file.path}: the file ends at byte {file.size}, inside {spec.name}, which ends at {offset}; "
                "it was cut short, get it again"
            )
    if offset != file.size:
        raise InputError(
            f"{file.path}: {file.size - offset} bytes follow the last tensor, expected none; "
            "the header does not belong to these weights, convert it again"
        )
    return stored
