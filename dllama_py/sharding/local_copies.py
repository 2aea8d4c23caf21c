"""The weights' walk where ranks may have the root's file themselves: they read their slices from it, if it is the same.

Each such rank hashes what it uses while it loads, the root the same pieces of its own file beside its own loading, and
they are compared before anything is computed. What differs comes from the root, or ends the run where that was asked.
All ranks take every step, whatever each of them found, so that nobody waits for one that does not come.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dllama_py.blocks import Bytes, FloatType
from dllama_py.errors import InputError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.formats.hash_table import HASH_BYTES
from dllama_py.formats.identity import LocalCopy, open_copy
from dllama_py.formats.mapped import MappedCheckpoint
from dllama_py.formats.piece_hashes import PieceHashes, StoredPiece, pieces_of
from dllama_py.formats.tensors import TensorSpec, tensor_specs
from dllama_py.progress import Progress
from dllama_py.sharding.distribute import distribute, receive
from dllama_py.sharding.pieces import held_specs, piece_of
from dllama_py.sharding.plan import Shard
from dllama_py.sharding.weights import Weights
from dllama_py.transport.collectives import gather_json
from dllama_py.transport.comm import Comm
from dllama_py.transport.failure import agreed
from dllama_py.troubleshooting import with_row

MOST_REASON = 500  # letters of why a file is no copy


@dataclass(frozen=True, slots=True)
class Walk:
    """One rank's part in the distribution of all slices; `shards` are those of all ranks."""

    comm: Comm
    shards: Sequence[Shard]
    weights: Weights
    kinds: dict[str, FloatType]
    on_progress: Progress

    @property
    def own(self) -> dict[int, Shard]:
        return {self.comm.rank: self.shards[self.comm.rank]}


def serve_weights(walk: Walk, checkpoint: Checkpoint, local: LocalCopy | None, say: Callable[[str], None]) -> None:
    """At the root: its own slices, and those of the ranks that have no copy. `local`: None where ranks are not to look
    for one; `say`: is told of the copies that differ.

    InputError for these, on all ranks (as `agreed` has it), where `local` is strict.
    """
    if local is None:
        distribute(checkpoint, walk.comm, dict(enumerate(walk.shards)), walk.weights, walk.kinds, walk.on_progress)
        with agreed(walk.comm):
            _check_unchanged(checkpoint)
        return
    assert isinstance(checkpoint, MappedCheckpoint)
    found = gather_json(walk.comm, {"has_copy": False, "reason": ""})
    with agreed(walk.comm):
        _tell(walk, local, {rank: each["reason"] for rank, each in enumerate(found) if each["reason"]}, say)
    used = {rank: used_pieces(checkpoint, walk.shards[rank]) for rank, each in enumerate(found) if each["has_copy"]}
    served = {rank: shard for rank, shard in enumerate(walk.shards) if rank not in used}
    with PieceHashes(checkpoint) as hashes:
        for pieces in used.values():
            for piece in pieces:
                hashes.begin(piece)
        distribute(checkpoint, walk.comm, served, walk.weights, walk.kinds, walk.on_progress)
        theirs = [np.empty((len(used.get(rank, ())), HASH_BYTES), np.uint8) for rank in range(walk.comm.size)]
        walk.comm.gather(np.empty((0, HASH_BYTES), np.uint8), theirs)
        with agreed(walk.comm):
            _check_unchanged(checkpoint)
            wrong = _differing(walk, used, hashes, theirs)
            _tell(walk, local, {rank: _difference(local, pieces) for rank, pieces in wrong.items()}, say)
    again = {rank: {piece.tensor for piece in pieces} for rank, pieces in wrong.items()}
    _share(walk, again)
    if again:
        shards = {rank: walk.shards[rank] for rank in again}
        distribute(checkpoint, walk.comm, shards, walk.weights, walk.kinds, walk.on_progress, again)


def take_weights(walk: Walk, local: LocalCopy | None) -> None:
    """On the other ranks: their slices, from their own copy or from the root. Leaves as `agreed` does where the root
    refuses a copy.
    """
    (rank, shard), (weights, kinds) = *walk.own.items(), (walk.weights, walk.kinds)
    if local is None:
        receive(walk.comm, shard, weights, kinds)
        with agreed(walk.comm):
            pass  # the root may find that its file was being written
        return
    copy, reason = None, ""
    try:
        copy = open_copy(local)
    except InputError as error:
        reason = str(error)[:MOST_REASON]
    gather_json(walk.comm, {"has_copy": copy is not None, "reason": reason})
    with agreed(walk.comm):
        pass  # the root may refuse what was found
    if copy is None:
        receive(walk.comm, shard, weights, kinds)
        digests = np.empty((0, HASH_BYTES), np.uint8)
    else:
        digests = _load(walk, copy)
    walk.comm.gather(digests, None)
    with agreed(walk.comm):
        pass  # the root may refuse the bytes of any copy
    names = _share(walk, {})[rank]
    if names:
        receive(walk.comm, shard, weights, kinds, names)


def used_pieces(checkpoint: MappedCheckpoint, shard: Shard) -> list[StoredPiece]:
    """Of the file, what a rank with this shard reads, in the order in which it does."""
    config, used = checkpoint.config, list[StoredPiece]()
    for spec in held_specs(config, shard):
        piece = piece_of(spec, shard, config)
        if piece.rows and piece.blocks:
            used += pieces_of(checkpoint, spec, piece.rows)
    return used


def _load(walk: Walk, copy: MappedCheckpoint) -> Bytes:
    """This rank's slices from its own file, hashed meanwhile: uint8 [pieces, 16]; zeros of what cannot be loaded."""
    used = used_pieces(copy, walk.shards[walk.comm.rank])
    with PieceHashes(copy) as hashes:

        def begin(spec: TensorSpec, rows: range) -> None:
            for piece in pieces_of(copy, spec, rows):
                hashes.begin(piece)

        try:
            distribute(copy, walk.comm, walk.own, walk.weights, walk.kinds, walk.on_progress, on_own=begin)
            digests = hashes.digests(used)
            _check_unchanged(copy)
            return digests
        except InputError:  # values that the root's file, which was looked at, has not; or others than were hashed
            return np.zeros((len(used), HASH_BYTES), np.uint8)


def _check_unchanged(checkpoint: Checkpoint) -> None:
    """InputError where somebody wrote into the model while it was loaded: its parts may be of different times."""
    for file in checkpoint.files if isinstance(checkpoint, MappedCheckpoint) else ():
        if file.is_rewritten():
            raise InputError(f"{file.path}: was written to while it was loaded; start again when it is complete")


def _differing(
    walk: Walk, used: Mapping[int, Sequence[StoredPiece]], hashes: PieceHashes, theirs: Sequence[Bytes]
) -> dict[int, list[StoredPiece]]:
    """Pieces of the root's file that a rank's copy has otherwise, of the ranks with such pieces."""
    wrong = {}
    for rank, pieces in used.items():
        is_wrong = (hashes.digests(pieces, walk.on_progress) != theirs[rank]).any(axis=1)
        if is_wrong.any():
            wrong[rank] = [piece for piece, differs in zip(pieces, is_wrong, strict=True) if differs]
    return wrong


def _difference(local: LocalCopy, wrong: Sequence[StoredPiece]) -> str:
    """Names the part of the model that differs, as its file is called on all hosts."""
    names = list(dict.fromkeys(piece.tensor for piece in wrong))
    path = Path(local.path).with_name(wrong[0].file.path.name)
    more = f" and {len(names) - 1} more tensors" if len(names) > 1 else ""
    return f"{path}: differs from the root's file in {names[0]}{more}; copy it again"


def _tell(walk: Walk, local: LocalCopy, reasons: Mapping[int, str], say: Callable[[str], None]) -> None:
    """InputError with the first of the reasons where the copies had to be the root's."""
    lines = [f"rank {rank} on {walk.comm.hosts[rank]}: {reason}" for rank, reason in reasons.items()]
    if local.is_strict and lines:
        more = f" (and {len(lines) - 1} more ranks)" if len(lines) > 1 else ""
        raise InputError(f"{lines[0]}, or leave --local-copies strict out{more}")
    for line in lines:
        say(with_row(f"{line}; the root's bytes are used"))


def _share(walk: Walk, names: Mapping[int, set[str]]) -> list[set[str]]:
    """The root's names of tensors, by rank, on every rank."""
    specs = [spec.name for spec in tensor_specs(walk.weights.config)]
    is_named = np.zeros((walk.comm.size, len(specs)), np.uint8)
    for rank, of_rank in names.items():
        is_named[rank] = [spec in of_rank for spec in specs]
    walk.comm.broadcast_idle(is_named)
    return [{specs[number] for number in np.flatnonzero(row)} for row in is_named]
