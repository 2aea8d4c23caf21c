"""The weights' walk: the root reads, quantises and cuts tensor by tensor, every rank packs what it owns.

Root and ranks go through the same loop over `tensor_specs` and chunks of rows, so that nothing but raw bytes
travels: who gets which bytes follows from the plan. Neither side ever holds more than a chunk beside its slices.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from dllama_py.blocks import BLOCK, Bytes, FloatType, dequantize
from dllama_py.config import ModelConfig
from dllama_py.errors import InputError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.formats.tensors import Cut, TensorSpec, tensor_specs
from dllama_py.kernels.layout import file_bytes
from dllama_py.kernels.quantize import quantize_rows
from dllama_py.progress import Progress, Work
from dllama_py.sharding.pieces import is_held, piece_of
from dllama_py.sharding.plan import Shard
from dllama_py.sharding.weights import Weights
from dllama_py.transport.comm import Comm

CHUNK_ELEMENTS = 4 << 20


def distribute(
    checkpoint: Checkpoint,
    comm: Comm,
    shards: Mapping[int, Shard],
    weights: Weights,
    kinds: dict[str, FloatType],
    on_progress: Progress,
) -> None:
    """At the root: the slices of these ranks leave in file order, its own into `weights`.

    Also on any rank that has the model itself, with its own shard alone.
    """
    config = checkpoint.config
    work, done = Work("loading weights", _stored_bytes(config, shards, kinds)), 0
    for spec, start, stop in _chunks(config):
        if not any(is_held(spec, shard) for shard in shards.values()):
            continue
        kind = kinds[spec.name]
        stored = _stored(checkpoint, spec, start, stop, kind)
        for rank, shard in shards.items():
            if not is_held(spec, shard):
                continue
            piece = piece_of(spec, shard, config)
            rows = piece.rows_within(start, stop)
            if not rows or not piece.blocks:
                continue
            part = stored[rows.start - start : rows.stop - start, file_bytes(kind, piece.blocks)]
            block = np.ascontiguousarray(part)
            if rank == comm.rank:
                weights.put(spec, rows.start - piece.rows.start, block)
            else:
                on_progress(work, done, f"{spec.name} to rank {rank} on {comm.hosts[rank]}")
                comm.send(block, rank)
        done += stored.nbytes
        on_progress(work, done, spec.name)
        checkpoint.release()


def receive(comm: Comm, shard: Shard, weights: Weights, kinds: dict[str, FloatType]) -> None:
    """On the other ranks: the same walk, receiving."""
    for spec, start, stop in _chunks(weights.config):
        if not is_held(spec, shard):
            continue
        piece = piece_of(spec, shard, weights.config)
        rows = piece.rows_within(start, stop)
        if rows and piece.blocks:
            held = file_bytes(kinds[spec.name], piece.blocks)
            block = np.empty((len(rows), held.stop - held.start), np.uint8)
            comm.recv(block, 0)
            weights.put(spec, rows.start - piece.rows.start, block)


def _stored_bytes(config: ModelConfig, shards: Mapping[int, Shard], kinds: dict[str, FloatType]) -> int:
    """Of all tensors that these ranks hold, rows in whole blocks."""
    total = 0
    for spec in tensor_specs(config):
        if any(is_held(spec, shard) for shard in shards.values()):
            n_rows, n_columns = spec.matrix_shape
            total += n_rows * file_bytes(kinds[spec.name], range(-(-n_columns // BLOCK))).stop
    return total


def _chunks(config: ModelConfig) -> Iterator[tuple[TensorSpec, int, int]]:
    """All distributed tensors, cut into runs of rows of a bounded size."""
    for spec in tensor_specs(config):
        if spec.cut is Cut.ROOT:
            continue
        n_rows, n_columns = spec.matrix_shape
        step = max(CHUNK_ELEMENTS // n_columns, 1)
        for start in range(0, n_rows, step):
            yield spec, start, min(start + step, n_rows)


def _stored(checkpoint: Checkpoint, spec: TensorSpec, start: int, stop: int, kind: FloatType) -> Bytes:
    """Rows in the type they are kept in; vectors are padded to whole runs of 32."""
    data, source = checkpoint.read(spec, start, stop), checkpoint.float_type(spec)
    if len(spec.shape) == 1:
        padded = np.zeros((1, -(-spec.shape[0] // 32) * 32), np.float32)
        padded[0, : spec.shape[0]] = dequantize(data, source)[0]
        return padded.view(np.uint8)
    if kind is source:
        return data
    try:
        return quantize_rows(data, source, kind)
    except ValueError as error:
        raise InputError(f"{checkpoint.path}: {spec.name} {error}; the file is damaged or not trained") from error
