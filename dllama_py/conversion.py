"""Any opened checkpoint into a `.m` file: the walk over `tensor_specs` with a file as its sink.

Memory is bounded by one chunk of rows, whatever the size of the model. It does not know source formats.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from dllama_py.blocks import Bytes, FloatType
from dllama_py.errors import InputError, UsageError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.formats.complete_file import complete_or_gone
from dllama_py.formats.model_file import stored_type
from dllama_py.formats.model_header import WEIGHT_TYPES, header_bytes
from dllama_py.formats.tensors import TensorSpec, tensor_specs
from dllama_py.kernels.quantize import quantize_rows
from dllama_py.progress import Progress, Work

_CHUNK_ELEMENTS = 1 << 18  # 1 MB as float32, which stays in the second or third cache level
_RELEASE_BYTES = 16 << 20  # of source, read between two releases of its pages


def model_file_name(name: str, target: FloatType) -> str:
    """The file name that distributed-llama's converter and launcher use."""
    return f"dllama_model_{name}_{target.label}.m"


def convert_model(checkpoint: Checkpoint, target: FloatType, out: Path, on_progress: Progress) -> None:
    """Write the checkpoint as a `.m` file whose matrices have type `target` (f32, f16, q40 or q80).

    The file appears under its name only when it is complete. InputError names a tensor that holds what the target
    cannot; UsageError says why the file cannot be written.
    """
    if target not in WEIGHT_TYPES.values():
        raise UsageError(f"{target.label} is no weights type of a .m file; f32, f16, q40 and q80 are")
    header = header_bytes(checkpoint.path, checkpoint.config, target, checkpoint.omitted)
    total = len(header) + sum(_written_bytes(checkpoint, spec, target) for spec in tensor_specs(checkpoint.config))
    with complete_or_gone(out, total) as file:
        file.write(header)
        written, unreleased = len(header), 0
        work = Work(f"writing {out.name}", total)
        for spec in tensor_specs(checkpoint.config):
            for source_bytes, chunk in _chunks(checkpoint, spec, stored_type(spec, target)):
                file.write(chunk.data)
                written += chunk.nbytes
                unreleased += source_bytes
                if unreleased > _RELEASE_BYTES:
                    checkpoint.release()
                    unreleased = 0
                    on_progress(work, written, spec.name)
        on_progress(work, written, "")
        checkpoint.release()


def _written_bytes(checkpoint: Checkpoint, spec: TensorSpec, target: FloatType) -> int:
    kind, (rows, columns) = stored_type(spec, target), spec.matrix_shape
    if columns % kind.block_elements:
        raise InputError(
            f"{checkpoint.path}: {spec.name} has rows of {columns} elements, {kind.label} needs a multiple of "
            f"{kind.block_elements}; convert to f16 or f32"
        )
    return rows * kind.n_bytes(columns)


def _chunks(checkpoint: Checkpoint, spec: TensorSpec, target: FloatType) -> Iterator[tuple[int, Bytes]]:
    """Runs of rows: bytes read from the source, and uint8 [rows, row_bytes] in the target type."""
    rows, columns = spec.matrix_shape
    source = checkpoint.float_type(spec)
    step = max(1, _CHUNK_ELEMENTS // columns)
    for start in range(0, rows, step):
        data = checkpoint.read(spec, start, min(start + step, rows))
        try:
            yield data.nbytes, _converted(data, source, target)
        except ValueError as error:
            raise InputError(f"{checkpoint.path}: tensor {spec.name} {error}; the checkpoint is damaged") from None


def _converted(data: Bytes, source: FloatType, target: FloatType) -> Bytes:
    """Blocks of the target's type go over unchanged, once their scales are known to be finite."""
    if source is not target or source.is_float:
        return quantize_rows(data, source, target)
    scales = np.ascontiguousarray(data).reshape(-1, source.block_bytes)[:, :2].copy().view(np.float16)
    if not np.isfinite(scales).all():
        raise ValueError("holds a scale that is infinite or not a number")
    return np.ascontiguousarray(data)
