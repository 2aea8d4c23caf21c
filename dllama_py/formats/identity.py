"""Whether a file on another host is the same model, without reading all of it."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from dllama_py.errors import InputError
from dllama_py.formats.checkpoint import Checkpoint, open_checkpoint
from dllama_py.formats.mapped import MappedFile

SAMPLES, SAMPLE_BYTES = 256, 4096


@dataclass(frozen=True, slots=True)
class LocalCopy:
    """Where the root has the model, and what its files must look like on a host that has it there too."""

    path: str
    fingerprint: str


def local_copy(checkpoint: Checkpoint) -> LocalCopy | None:
    """Of a model in a file; None of a folder, whose weights are made anew at the root, and of what is in no file."""
    if not checkpoint.path.is_file():
        return None
    return LocalCopy(str(checkpoint.path.absolute()), _fingerprint(checkpoint.files))


def open_copy(copy: LocalCopy) -> Checkpoint | None:
    """The same model on this host; None where there is none, or another file."""
    if not Path(copy.path).is_file():
        return None
    try:
        checkpoint = open_checkpoint(copy.path)
    except InputError:
        return None
    return checkpoint if _fingerprint(checkpoint.files) == copy.fingerprint else None


def _fingerprint(files: tuple[MappedFile, ...]) -> str:
    """SHA-256 of the sizes of the files and of evenly spaced samples, the first and the last bytes among them.

    A whole hash of 40 GB would take longer than loading does; another conversion of the same model differs in all of
    its blocks.
    """
    digest = hashlib.sha256()
    for file in files:
        digest.update(str(file.size).encode())
        n_bytes = min(SAMPLE_BYTES, file.size)
        for number in range(SAMPLES):
            digest.update(file.read((file.size - n_bytes) * number // (SAMPLES - 1), n_bytes))
    return digest.hexdigest()
