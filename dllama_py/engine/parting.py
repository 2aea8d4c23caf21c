"""Where two runs over the same ids part: the first position, layer and node, from the hashes of what they computed."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Hashes = NDArray[np.int64]

HALVES = "attention", "feed-forward"


@dataclass(frozen=True, slots=True)
class Trail:
    """Of one run (model/residual_log.py): residual int64 [T, L + 1], leaves int64 [T, L, 2, P], and the node that
    computed each leaf, int64 [L, P]."""

    residual: Hashes
    leaves: Hashes
    nodes: Hashes


@dataclass(frozen=True, slots=True)
class Parting:
    """`layer`: None before the first; `part`: what in it differs first; `node`: who computed that, if it is one."""

    position: int
    layer: int | None
    part: str
    node: int | None


def first_parting(reference: Trail, other: Trail) -> Parting | None:
    """None where the two are the same. Of the earliest differing position the first difference on its way through the
    layers; nodes are those of the other run.
    """
    leaves = reference.leaves != other.leaves  # [T, L, 2, P]
    residual = reference.residual != other.residual  # [T, L + 1]
    positions = np.flatnonzero(residual.any(axis=1) | leaves.any(axis=(1, 2, 3)))
    if not positions.size:
        return None
    position = int(positions[0])
    if residual[position, 0]:
        return Parting(position, None, "embedding", None)
    for layer, halves in enumerate(leaves[position]):
        for part, own in zip(HALVES, halves, strict=True):
            if own.any():
                return Parting(position, layer, part, int(other.nodes[layer, own.argmax()]))
        if residual[position, layer + 1]:
            first, *others = np.unique(other.nodes[layer]).tolist()
            return Parting(position, layer, "sum", None if others else first)
    raise AssertionError("a difference is in one of the layers")
