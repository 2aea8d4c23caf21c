"""The weights' walk: the root reads, quantises and cuts tensor by tensor, every rank packs what it owns.

Root and ranks go through the same loop over `tensor_specs` and chunks of rows, so that nothing but raw bytes
travels: who gets which bytes follows from the plan. Neither side ever holds more than a chunk beside its slices.
"""

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

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
    only: Mapping[int, Container[str]] = MappingProxyType({}),
    on_own: Callable[[TensorSpec, range], None] = lambda spec, rows: None,
) -> None:
    """At the root: the slices of these ranks leave in file order, its own into `weights`.

    Also on any rank that has the model itself, with its own shard alone. `only`: the names of the tensors that a rank
    gets, where it does not get all that it holds. `on_own`: is told of rows just before they are read for this rank.
    """
    config = weights.config
    takers = _Takers(shards, only)
    work, done = Work("loading weights", _stored_bytes(config, takers, kinds)), 0
    for spec, start, stop in _chunks(config):
        if not takers.of(spec):
            continue
        kind = kinds[spec.name]
        if comm.rank in takers.of(spec):
            on_own(spec, piece_of(spec, shards[comm.rank], config).rows_within(start, stop))
        stored = _stored(checkpoint, spec, start, stop, kind)
        for rank in takers.of(spec):
            piece = piece_of(spec, shards[rank], config)
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


def receive(
    comm: Comm, shard: Shard, weights: Weights, kinds: dict[str, FloatType], only: Container[str] | None = None
) -> None:
    """On the other ranks: the same walk, receiving. `only`: as the root has it for this rank."""
    takers = _Takers({comm.rank: shard}, {} if only is None else {comm.rank: only})
    for spec, start, stop in _chunks(weights.config):
        if not takers.of(spec):
            continue
        piece = piece_of(spec, shard, weights.config)
        rows = piece.rows_within(start, stop)
        if rows and piece.blocks:
            held = file_bytes(kinds[spec.name], piece.blocks)
            block = np.empty((len(rows), held.stop - held.start), np.uint8)
            comm.recv(block, 0)
            weights.put(spec, rows.start - piece.rows.start, block)


@dataclass(frozen=True, slots=True)
class _Takers:
    """Which ranks get something of a tensor."""

    shards: Mapping[int, Shard]
    only: Mapping[int, Container[str]]

    def of(self, spec: TensorSpec) -> list[int]:
        return [
            rank
            for rank, shard in self.shards.items()
            if is_held(spec, shard) and (rank not in self.only or spec.name in self.only[rank])
        ]


def _stored_bytes(config: ModelConfig, takers: _Takers, kinds: dict[str, FloatType]) -> int:
    """Of all tensors that are read, rows in whole blocks."""
    total = 0
    for spec in tensor_specs(config):
        if takers.of(spec):
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
