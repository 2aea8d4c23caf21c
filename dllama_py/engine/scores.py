"""What the root knows of one row's logits without having them all, and how it gets to know more.

Every rank tells its best candidates, and what the sums over its shares of the vocabulary come to. That is enough for
most tokens; whoever samples asks for more only when it must. No answer depends on how many ranks there are.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dllama_py.engine.cost import StepCost
from dllama_py.kernels.keys import NOTHING, ids_of, logits_of

Keys = NDArray[np.int64]
Floats = NDArray[np.float32]

LOWEST = float(np.finfo(np.float32).min)


@dataclass(frozen=True, slots=True)
class Ask:
    """What is wanted of a row: candidates, each with its logit, and sums over the vocabulary.

    `n_tokens`: ids below it may be chosen. `temperature`: of the sums; 0 if none are wanted.
    """

    n_tokens: int
    n_candidates: int
    temperature: float = 0.0

    @property
    def inverse_temperature(self) -> float:
        """In float32's range; 0 where no sums are wanted."""
        return 1 / min(max(self.temperature, 1e-37), 1e37) if self.temperature else 0.0


@dataclass(frozen=True, slots=True)
class Candidates:
    """Tokens in descending order of their logits, of equal ones the lower id first: int64 [n], float32 [n]."""

    ids: NDArray[np.int64]
    logits: Floats

    def __len__(self) -> int:
        return len(self.ids)

    def first(self, n: int) -> "Candidates":
        return Candidates(self.ids[:n], self.logits[:n])


class Rest(Protocol):
    """Finds out what is not known of a row; until the next step."""

    @property
    def cost(self) -> StepCost:
        """Of asking, so far."""

    def logits(self) -> Floats:
        """float32 [n_tokens]."""

    def draw(self, share: int, part: float) -> int:
        """The id at which the running sum over a share of the vocabulary exceeds that part of the share's sum."""


class Scores:
    """Of one row. `keys`: int64 [N, C], the candidates of each rank (kernels/keys.py). `shares`: float64 [P, 2], of
    each share of the vocabulary the largest logit and the sum of exponentials, where asked for.
    """

    def __init__(self, ask: Ask, keys: Keys, shares: NDArray[np.float64], rest: Rest) -> None:
        self.ask = ask
        self.shares = shares
        self.rest = rest
        self._keys = keys

    def best_key(self) -> int:
        """Of the lowest id of the largest logit. What is not a number counts as larger than all."""
        key: int = max(map(max, self._keys.tolist()))  # numpy's reduction costs 24 us when it is cold, once a token
        return key

    def known(self) -> tuple[Candidates, bool]:
        """The candidates that are certainly the best, and whether they are all that could be chosen."""
        last_of_ranks = self._keys.min(axis=1)
        ends = last_of_ranks[last_of_ranks != NOTHING]  # of ranks that may have more
        keys = np.sort(self._keys, axis=None)[::-1]
        keys = keys[keys >= ends.max()] if len(ends) else keys[keys != NOTHING]
        return Candidates(ids_of(keys), logits_of(keys)), not len(ends)

    def down_to(self, logit: float) -> Candidates:
        """All tokens whose logits are at least that; asks every rank for all it has."""
        logits = self.rest.logits()
        ids = np.flatnonzero(logits >= max(logit, LOWEST))
        ids = ids[np.argsort(-logits[ids], kind="stable")]
        return Candidates(ids, logits[ids])

    def best_of(self, n: int) -> Candidates:
        """The n best, or all that have a chance if these are fewer."""
        known, are_all = self.known()
        if len(known) >= n or are_all:
            return known.first(n)
        logits = self.rest.logits()
        return self.down_to(float(np.partition(logits, len(logits) - n)[len(logits) - n])).first(n)
