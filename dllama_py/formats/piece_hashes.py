"""Hashes of a model's tensors, in pieces of some 16 MB, made on a thread beside whoever loads them.

Pieces are cut from the tensor's first row on, so they are the same for whoever uses part of it.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType

import numpy as np
import xxhash

from dllama_py.blocks import Bytes
from dllama_py.formats.hash_table import HASH_BYTES, Ranges, recall, remember
from dllama_py.formats.mapped import MappedCheckpoint, MappedFile
from dllama_py.formats.tensors import TensorSpec
from dllama_py.progress import Progress, Work, unwatched

PIECE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class StoredPiece:
    """Some rows of a tensor as they lie in a file; `n_bytes` from `offset`."""

    tensor: str
    file: MappedFile
    offset: int
    n_bytes: int


def pieces_of(checkpoint: MappedCheckpoint, spec: TensorSpec, rows: range) -> Iterator[StoredPiece]:
    """All pieces in which some of these rows lie."""
    stored, (n_rows, n_columns) = checkpoint.stored[spec.name], spec.matrix_shape
    row_bytes = stored.kind.n_bytes(n_columns)
    step = max(PIECE_BYTES // row_bytes, 1)
    for start in range(rows.start // step * step, rows.stop if rows else 0, step):
        n_bytes = (min(start + step, n_rows) - start) * row_bytes
        yield StoredPiece(spec.name, stored.file, stored.offset + start * row_bytes, n_bytes)


class PieceHashes:
    """XXH3 of 128 bits. `with PieceHashes(checkpoint) as hashes:`; what is left to do at its end is dropped."""

    def __init__(self, checkpoint: MappedCheckpoint) -> None:
        self._known = recall(checkpoint.files)
        self._asked: dict[StoredPiece, Future[bytes]] = {}
        self._pool = ThreadPoolExecutor(1, "hashes")

    def __enter__(self) -> "PieceHashes":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def begin(self, piece: StoredPiece) -> None:
        """Hash it soon, after those that were begun before; nothing if it is known."""
        if piece not in self._asked and self._of(piece) is None:
            self._asked[piece] = self._pool.submit(_hash, piece)

    def digests(self, pieces: Sequence[StoredPiece], on_progress: Progress = unwatched) -> Bytes:
        """uint8 [pieces, 16], once all are hashed. What is new is remembered for other runs."""
        for piece in pieces:
            self.begin(piece)
        waiting = [piece for piece in pieces if self._of(piece) is None]
        work, done = Work("comparing local copies", sum(piece.n_bytes for piece in waiting)), 0
        new: dict[MappedFile, Ranges] = {}
        for piece in waiting:
            on_progress(work, done, piece.tensor)
            new.setdefault(piece.file, {})[piece.offset, piece.n_bytes] = self._asked[piece].result()
            done += piece.n_bytes
        if waiting:
            on_progress(work, done, "")
        for file, ranges in new.items():
            self._known[file] |= ranges
        remember(new)
        found = b"".join(self._known[piece.file][piece.offset, piece.n_bytes] for piece in pieces)
        return np.frombuffer(found, np.uint8).reshape(-1, HASH_BYTES)

    def _of(self, piece: StoredPiece) -> bytes | None:
        return self._known[piece.file].get((piece.offset, piece.n_bytes))


def _hash(piece: StoredPiece) -> bytes:
    digest: bytes = xxhash.xxh3_128_digest(piece.file.view(piece.offset, piece.n_bytes).data)
    piece.file.release()
    return digest
