"""Files mapped into memory, and the checkpoint that every reader of this room builds from them.

A reader only finds out where each tensor lies (`Stored`) and what the model is; reading rows is done here, once.
It does not know any file format, nor who will use the rows.
"""

import mmap
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dllama_py.blocks import Bytes, FloatType
from dllama_py.config import ModelConfig
from dllama_py.errors import InputError
from dllama_py.formats.tensors import TensorSpec, tensor_specs

_MOST_PARTS = 100_000  # layers times experts; today's largest models have some 20,000
_DROP_PAGES: int | None = getattr(mmap, "MADV_DONTNEED", None)  # not on Windows


@dataclass(frozen=True, slots=True)
class FileVersion:
    """By which it is seen, without reading, that a file is no longer what it was. Times in ns since 1970; that of the
    last change of the inode too, since tools that copy into a file set the time of its content back.
    """

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int


def version_of(status: os.stat_result) -> FileVersion:
    return FileVersion(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_dev)


class MappedFile:
    """A whole file as read-only bytes; nothing is read before a view is touched. `version`: at the time of mapping."""

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self.version = version_of(os.fstat(file.fileno()))
                self.size = file.seek(0, 2)
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if self.size else None
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
        self.path = path
        self._bytes: Bytes = np.frombuffer(self._map or b"", np.uint8)

    def view(self, offset: int, n_bytes: int) -> Bytes:
        """Bytes [offset, offset + n_bytes) without copying; InputError where the file is shorter."""
        if offset < 0 or n_bytes < 0 or offset + n_bytes > self.size:
            raise InputError(
                f"{self.path}: {n_bytes} bytes wanted at offset {offset}, but the file has {self.size}; "
                "it was cut short or is damaged, get it again"
            )
        return self._bytes[offset : offset + n_bytes]

    @property
    def buffer(self) -> memoryview:
        """The bytes for `struct`, which checks bounds itself."""
        return self._bytes.data

    def read(self, offset: int, n_bytes: int) -> bytes:
        """The same bytes, copied."""
        return self.view(offset, n_bytes).tobytes()

    def is_rewritten(self) -> bool:
        """Whether its bytes may be others than when it was mapped. Another file in its place changes nothing here."""
        try:
            now = version_of(self.path.stat())
        except OSError:
            return False
        is_same_file = (now.inode, now.device) == (self.version.inode, self.version.device)
        return is_same_file and (now.size, now.mtime_ns) != (self.version.size, self.version.mtime_ns)

    def release(self) -> None:
        """Let the system take back the pages read so far; views stay valid and are read again on use."""
        if self._map is not None and _DROP_PAGES is not None:
            self._map.madvise(_DROP_PAGES)


@dataclass(frozen=True, slots=True)
class Stored:
    """Where a tensor lies. `half_split_head` is E where q or k rows are to be turned to adjacent-pair order."""

    file: MappedFile
    offset: int
    kind: FloatType
    half_split_head: int = 0


@dataclass(frozen=True)
class MappedCheckpoint:
    """Fulfils `checkpoint.Checkpoint`; `stored` has every tensor of `tensor_specs(config)` by its name.

    `omitted` names the fields of the config that the source leaves to a default, `notes` are sentences the user
    should see, `metadata` is what else the source says (GGUF keys).
    """

    path: Path
    config: ModelConfig
    stored: Mapping[str, Stored]
    files: tuple[MappedFile, ...]
    omitted: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_tied(self) -> bool:
        """Whether the head is the embedding table, stored once."""
        return self.stored["head"] == self.stored["embedding"]

    @property
    def file_bytes(self) -> int:
        """Of all files together."""
        return sum(file.size for file in self.files)

    def float_type(self, spec: TensorSpec) -> FloatType:
        """The type in which `read` gives this tensor."""
        return self.stored[spec.name].kind

    def read(self, spec: TensorSpec, start: int, stop: int) -> Bytes:
        """Rows [start, stop) as uint8 [rows, row_bytes]; a view where the file's order is ours."""
        return self.reader(spec)(start, stop)

    def reader(self, spec: TensorSpec) -> Callable[[int, int], Bytes]:
        """`read` of one tensor, looked up once: (start, stop) -> rows."""
        stored = self.stored[spec.name]
        if stored.half_split_head:
            return partial(_turned, stored, spec)
        n_rows, row_bytes = spec.matrix_shape[0], stored.kind.n_bytes(spec.matrix_shape[1])
        whole = stored.file.view(stored.offset, n_rows * row_bytes).reshape(n_rows, row_bytes)
        return lambda start, stop: whole[start:stop]

    def release(self) -> None:
        """Drop the pages read so far from this process's memory."""
        for file in self.files:
            file.release()


def _turned(stored: Stored, spec: TensorSpec, start: int, stop: int) -> Bytes:
    """Outputs [start, stop) of q or k in adjacent-pair order, or all of their bias, as one row."""
    is_bias = len(spec.shape) == 1
    n_outputs, output_bytes = spec.shape[0], stored.kind.n_bytes(1 if is_bias else spec.shape[1])
    wanted = half_split_rows(*((0, n_outputs) if is_bias else (start, stop)), stored.half_split_head)
    whole = stored.file.view(stored.offset, n_outputs * output_bytes).reshape(n_outputs, output_bytes)
    return whole[wanted].reshape(1 if is_bias else stop - start, -1)


def half_split_rows(start: int, stop: int, head_width: int) -> NDArray[np.intp]:
    """For rows [start, stop) in adjacent-pair order: their places in half-split order (2j + t lies at t*E/2 + j)."""
    head, inside = np.divmod(np.arange(start, stop, dtype=np.intp), head_width)
    places: NDArray[np.intp] = head * head_width + inside % 2 * (head_width // 2) + inside // 2
    return places


def check_config(path: Path, config: ModelConfig) -> None:
    """Refuse sizes that no model has, before anything is computed from them."""
    c = config
    sizes = {
        "width": c.width, "layers": c.n_layers, "heads": c.n_heads, "key/value heads": c.n_kv_heads,
        "head width": c.head_width, "feed-forward width": c.hidden_width, "vocabulary": c.vocab_size,
        "context length": c.context_length,
    }  # fmt: skip
    wrong = [f"{name} {value}" for name, value in sizes.items() if not 0 < value < 2**31]
    if wrong:
        raise InputError(f"{path}: {', '.join(wrong)}: expected whole numbers from 1 to 2^31-1; the header is damaged")
    if c.n_layers * max(c.n_experts, 1) > _MOST_PARTS:
        raise InputError(f"{path}: {c.n_layers} layers of {c.n_experts} experts cannot be; the header is damaged")
    if c.n_heads % c.n_kv_heads or c.head_width % 2:
        raise InputError(
            f"{path}: {c.n_heads} heads of width {c.head_width} over {c.n_kv_heads} key/value heads: "
            "expected a multiple and an even width; the header is damaged"
        )
    if c.n_experts < 0 or not (c.n_experts == 0 or 0 < c.n_active_experts <= c.n_experts):
        raise InputError(
            f"{path}: {c.n_active_experts} active of {c.n_experts} experts cannot be; the header is damaged"
        )
    if not (0 < c.norm_epsilon < 1 and 1 < c.rope_theta < 1e15):
        raise InputError(f"{path}: norm epsilon {c.norm_epsilon} or RoPE base {c.rope_theta} is out of range")


def check_rows(path: Path, spec: TensorSpec, kind: FloatType) -> int:
    """Bytes of the tensor in this type; InputError where a row is not whole blocks."""
    rows, columns = spec.matrix_shape
    if columns % kind.block_elements:
        raise InputError(
            f"{path}: {spec.name} has rows of {columns} elements, {kind.label} needs a multiple of "
            f"{kind.block_elements}; use f16 or f32 for this model"
        )
    return rows * kind.n_bytes(columns)


def spec_named(config: ModelConfig, name: str) -> TensorSpec:
    """The spec of one tensor, such as `embedding`."""
    return next(spec for spec in tensor_specs(config) if spec.name == name)
