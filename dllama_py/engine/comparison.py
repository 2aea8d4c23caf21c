"""How far the logits of two runs over the same ids are apart."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]
Doubles = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Distance:
    """Of logits from reference logits. The margin is that of the logits themselves.

    `first_differing_token`: number of the first generated token that would be another, None if none would;
    `max_abs_logit_difference`: over all positions and tokens; `kl_nats`: KL(reference || these), mean over positions;
    `min_top2_margin`: the smallest gap between the two largest logits where a token is chosen, which is how near the
    tokens are to being others; `same_bits`: not one bit is another.
    """

    same_bits: bool
    first_differing_token: int | None
    max_abs_logit_difference: float
    kl_nats: float
    min_top2_margin: float


def distance(reference: Logits, logits: Logits, first_chosen: int) -> Distance:
    """float32 [T, V] each, finite; rows from `first_chosen` on choose the tokens."""
    return Distance(
        same_bits=reference.tobytes() == logits.tobytes(),
        first_differing_token=first_difference(reference[first_chosen:], logits[first_chosen:]),
        max_abs_logit_difference=max(_largest_gap(*rows) for rows in zip(reference, logits, strict=True)),
        kl_nats=float(np.mean([divergence(*rows) for rows in zip(reference, logits, strict=True)])),
        min_top2_margin=min(_margin(row) for row in logits[first_chosen:]),
    )


def first_difference(reference: Logits, logits: Logits) -> int | None:
    """The first row with another largest logit; of equal logits the first counts, as in the sampler."""
    rows = np.flatnonzero(reference.argmax(axis=1) != logits.argmax(axis=1))
    return int(rows[0]) if rows.size else None


def divergence(reference: Logits, logits: Logits) -> float:
    """KL(softmax(reference) || softmax(logits)) of one row [V], in nats, at least 0."""
    p, q = _log_softmax(reference), _log_softmax(logits)
    return max(float(np.sum(np.exp(p) * (p - q))), 0.0)


def first_bad_row(logits: Logits) -> int | None:
    """Number of the first row with a NaN or an infinity, from which no distance can be told."""
    rows = np.flatnonzero(~np.isfinite(logits).all(axis=1))
    return int(rows[0]) if rows.size else None


def _log_softmax(logits: Logits) -> Doubles:
    shifted = logits.astype(np.float64) - float(logits.max())
    result: Doubles = shifted - np.log(np.sum(np.exp(shifted)))
    return result


def _largest_gap(a: Logits, b: Logits) -> float:
    return float(np.max(np.abs(a.astype(np.float64) - b)))


def _margin(row: Logits) -> float:
    second, first = np.partition(row, -2)[-2:]
    return float(first) - float(second)
