"""The door of this room: open any model by its content, and what every opened model offers.

What a file is follows from its first bytes, never from its name. Everything is checked at opening, before a weight
is read: header, presence, shape and type of every tensor, sizes against the file.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from dllama_py.blocks import Bytes, Floats, FloatType, dequantize
from dllama_py.config import ModelConfig
from dllama_py.errors import InputError, UsageError
from dllama_py.formats import gguf, huggingface, model_file
from dllama_py.formats.mapped import MappedFile, spec_named
from dllama_py.formats.strangers import refuse_stranger
from dllama_py.formats.tensors import TensorSpec


class Checkpoint(Protocol):
    """An opened model: facts at once, weights on demand.

    Matrices and vectors come in the type of the file, q and k of llama models always in adjacent-pair order.
    """

    @property
    def path(self) -> Path: ...

    @property
    def config(self) -> ModelConfig: ...

    @property
    def omitted(self) -> frozenset[str]:
        """Fields of the config that the source does not state."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the user about what was found and left alone."""
        ...

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What else the source says: the keys of a GGUF, nothing for the other formats."""
        ...

    @property
    def file_bytes(self) -> int:
        """Of all its files together."""
        ...

    @property
    def is_tied(self) -> bool:
        """Whether the head is the embedding table, stored once."""
        ...

    @property
    def files(self) -> tuple[MappedFile, ...]:
        """Where the weights lie."""
        ...

    def float_type(self, spec: TensorSpec) -> FloatType:
        """The type that `read` delivers for this tensor."""
        ...

    def read(self, spec: TensorSpec, start: int, stop: int) -> Bytes:
        """Rows [start, stop) as uint8 [rows, row_bytes], a view where possible; a vector counts as one row."""
        ...

    def release(self) -> None:
        """Drop the pages read so far."""
        ...


_OPENERS: dict[bytes, Callable[[MappedFile], Checkpoint]] = {
    gguf.MAGIC: gguf.open_gguf,
    model_file.MAGIC: model_file.open_model_file,
}


def open_checkpoint(path: str | Path) -> Checkpoint:
    """Open a `.m` file, a GGUF file or a Hugging Face folder; InputError says in one line what is wrong with it."""
    path = Path(path)
    if path.is_dir():
        return huggingface.open_folder(path)
    if not path.is_file():  # a pipe would be waited for
        raise InputError(f"{path}: there is no such file or folder; give a .m file, a GGUF file or a model folder")
    file = MappedFile(path)
    refuse_stranger(file)
    first = file.read(0, min(4, file.size))
    opener = _OPENERS.get(first)
    if opener is None:
        raise InputError(
            f"{path}: starts with the bytes {first.hex(' ')}, which is no known model format; "
            "give a .m file, a GGUF file or a Hugging Face folder"
        )
    return opener(file)


def embedding_rows(checkpoint: Checkpoint, ids: Sequence[int]) -> Floats:
    """Rows of the embedding table, read from the file and widened: float32 [T, D]."""
    spec = spec_named(checkpoint.config, "embedding")
    for token in ids:
        if not 0 <= token < spec.shape[0]:
            raise UsageError(f"token {token} is not in the vocabulary of {spec.shape[0]}; check --ids or the tokenizer")
    rows = [checkpoint.read(spec, token, token + 1) for token in ids]
    if not rows:
        return np.empty((0, checkpoint.config.width), np.float32)
    return dequantize(rows[0] if len(rows) == 1 else np.concatenate(rows), checkpoint.float_type(spec))  # [T, D]
