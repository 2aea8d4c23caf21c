"""Do all ranks hold the same residual stream, and where do two runs part? Hashes are gathered at the root."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from dllama_py.engine.protocol import Mail, Message
from dllama_py.errors import ClusterError
from dllama_py.model.rank_model import RankModel
from dllama_py.transport.comm import Comm
from dllama_py.transport.metered import MeteredComm

Hashes = NDArray[np.int64]


class ResidualCheck:
    """At a stage's leader: after a step that was hashed, compares its ranks; keeps the hashes if they are wanted.

    `leader`: this rank's number in the world, as users know it.
    """

    def __init__(self, model: RankModel, comm: MeteredComm, mail: Mail, leader: int) -> None:
        self._model = model
        self._comm = comm
        self._mail = mail
        self._hosts = dict(enumerate((host.name for host in comm.hosts), leader))
        self._kept: list[tuple[Hashes, Hashes]] | None = None

    def keep(self) -> None:
        """From now on every step is hashed, of which the others have been told, and the hashes of all are kept."""
        self._model.hash_every = 1
        self._kept = []

    def kept(self) -> tuple[Hashes, Hashes]:
        """Of the T rows since `keep`: residual stream int64 [T, L + 1] and leaves [T, L, 2, P] of the stage's L."""
        residuals, leaves = zip(*(self._kept or []), strict=True)
        joined = np.concatenate(residuals, axis=1).T, np.moveaxis(np.concatenate(leaves, axis=3), 3, 0)
        return np.ascontiguousarray(joined[0]), np.ascontiguousarray(joined[1])

    def kept_with(self, world: Comm, leaders: Sequence[int]) -> tuple[Hashes, Hashes]:
        """At the root: the same of all layers; the leaders of the stages behind it call `send_kept`."""
        residual, leaves = self.kept()
        residuals, all_leaves = [residual], [leaves]
        for leader in leaders:
            n_layers = np.empty(1, np.int64)
            world.recv(n_layers, leader)
            residual = np.empty((len(residual), n_layers[0] + 1), np.int64)
            leaves = np.empty((len(leaves), n_layers[0], *leaves.shape[2:]), np.int64)
            world.recv(residual, leader)
            world.recv(leaves, leader)
            residuals.append(residual[:, 1:])
            all_leaves.append(leaves)
        return np.concatenate(residuals, axis=1), np.concatenate(all_leaves, axis=1)

    def send_kept(self, world: Comm) -> None:
        """A leader's answer to Message.KEPT."""
        residual, leaves = self.kept()
        for words in (np.array([leaves.shape[1]], np.int64), residual, leaves):
            world.send(words, 0)

    def after_step(self, positions: Sequence[int]) -> None:
        """positions: of the rows. ClusterError if a rank has other numbers than the rest."""
        if not self._model.was_hashed:
            return
        n_rows = len(positions)
        self._mail.tell(Message.HASHES, n_rows, 0)
        residuals = self._gathered(self._model.log.residual(n_rows))  # [N, L + 1, T]
        check_residuals(residuals, self._hosts, positions, self._model.log.first_layer)
        if self._kept is not None:
            self._mail.tell(Message.HASHES, n_rows, 1)
            leaves = self._gathered(self._model.log.leaves(n_rows))  # [N, L, 2, P / N, T]
            self._kept.append((residuals[0], np.concatenate(list(leaves), axis=2)))

    def _gathered(self, own: Hashes) -> Hashes:
        everywhere = np.empty((self._comm.size, *own.shape), np.int64)
        self._comm.gather(own, list(everywhere))
        return everywhere


def send_hashes(model: RankModel, comm: MeteredComm, n_rows: int, of_leaves: bool) -> None:
    """A rank's answer to Message.HASHES."""
    comm.gather(model.log.leaves(n_rows) if of_leaves else model.log.residual(n_rows), None)


def check_residuals(
    residuals: Hashes, hosts: Mapping[int, str], positions: Sequence[int], first_layer: int = 0
) -> None:
    """residuals: int64 [N, L + 1, T] of ranks that share layers from the first on (model/residual_log.py); hosts: by
    the numbers of these N ranks, ascending; positions: of the T rows.

    ClusterError names the first layer after which they differ and the rank that is alone with its own; of two ranks
    either may be wrong, and the second is named.
    """
    places = np.argwhere((residuals != residuals[0]).any(axis=0))
    if not len(places):
        return
    n_done, row = map(int, places[0])
    rank = list(hosts)[_odd_one(residuals[:, n_done, row].tolist())]
    others = "the other" if len(hosts) == 2 else "the others"
    raise ClusterError(
        f"rank {rank} on {hosts[rank]} has not the numbers of {others} {_named(first_layer + n_done)} "
        f"at position {positions[row]}: its CPU, its memory or its link makes errors; test that host, or leave it out"
    )


def _odd_one(hashes: Sequence[int]) -> int:
    """The last rank whose hash fewest have; of two ranks the second."""
    counts = Counter(hashes)
    return min(reversed(range(len(hashes))), key=lambda rank: counts[hashes[rank]])


def _named(n_done: int) -> str:
    return f"after layer {n_done - 1}" if n_done else "before the first layer"
