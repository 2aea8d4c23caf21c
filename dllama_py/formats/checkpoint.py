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

    def reader(self, spec: TensorSpec) -> Callable[[int, int], Bytes]:
        """`read` of one tensor, looked up once: (start, stop) -> rows."""
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


class Embedding:
    """The embedding table: rows are read from the file when they are wanted. Everything else is looked up once, since
    a token waits for its row.
    """

    def __init__(self, checkpoint: Checkpoint) -> None:
        spec = spec_named(checkpoint.config, "embedding")
        self._n_ids, self._width = spec.matrix_shape
        self._kind = checkpoint.float_type(spec)
        self._read = checkpoint.reader(spec)
        self._factor = np.sqrt(np.float32(checkpoint.config.embedding_square))

    def rows(self, ids: Sequence[int]) -> Floats:
        """Of these ids, widened, and scaled where the model does: float32 [T, D]. UsageError for an unknown id."""
        for token in ids:
            if not 0 <= token < self._n_ids:
                raise UsageError(
                    f"token {token} is not in the vocabulary of {self._n_ids}; check --ids or the tokenizer"
                )
        if len(ids) == 1:
            return self._widened(self._read(ids[0], ids[0] + 1))
        if not ids:
            return np.empty((0, self._width), np.float32)
        return self._widened(np.concatenate([self._read(token, token + 1) for token in ids]))  # [T, D]

    def _widened(self, rows: Bytes) -> Floats:
        embedded = dequantize(rows, self._kind)
        return embedded if self._factor == 1 else embedded * self._factor
