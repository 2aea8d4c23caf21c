"""The root's model file on another host: where it may lie, and whether it has the same tensors.

That its bytes are the same is known once they are hashed (`piece_hashes.py`).
"""

import os
from dataclasses import dataclass
from pathlib import Path

import xxhash

from dllama_py.errors import InputError
from dllama_py.formats.checkpoint import Checkpoint, open_checkpoint
from dllama_py.formats.mapped import MappedCheckpoint
from dllama_py.formats.tensors import tensor_specs


@dataclass(frozen=True, slots=True)
class LocalCopy:
    """Where the root has the model, a hash of its tensors' names, shapes and types, and whether a run is refused where
    a rank has something else in that place.
    """

    path: str
    layout: str
    is_strict: bool = False


def local_copy(checkpoint: Checkpoint, is_strict: bool = False) -> LocalCopy | None:
    """Of a model in a file; None of a folder, whose weights are made anew at the root, and of what is in no file."""
    if not isinstance(checkpoint, MappedCheckpoint) or not checkpoint.path.is_file():
        return None
    return LocalCopy(str(checkpoint.path.absolute()), _layout(checkpoint), is_strict)


def open_copy(copy: LocalCopy) -> MappedCheckpoint | None:
    """What this host has in the same place, None where that is nothing; InputError where it is another model or none
    at all.
    """
    path = Path(copy.path)
    if not os.path.exists(path):  # also where this user may not look
        return None
    checkpoint = open_checkpoint(path)
    if not isinstance(checkpoint, MappedCheckpoint) or not path.is_file() or _layout(checkpoint) != copy.layout:
        raise InputError(f"{path}: has other tensors than the root's file; copy it again")
    return checkpoint


def _layout(checkpoint: MappedCheckpoint) -> str:
    """What else the header says (a chat template, a name) may differ: only weights are read from a copy."""
    digest = xxhash.xxh3_128()
    for spec in tensor_specs(checkpoint.config):
        stored = checkpoint.stored[spec.name]
        digest.update(f"{spec.name} {spec.shape} {stored.kind.label} {stored.half_split_head}\n".encode())
    return str(digest.hexdigest())
