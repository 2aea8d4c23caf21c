"""The sum over ranks written as plainly as possible: what the all-reduce must equal, bit for bit."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tests.support.codecs import round_bf16, round_q80

Floats = NDArray[np.float32]

ROUNDING: dict[str, Callable[[Floats], Floats]] = {
    "f32": lambda values: values,
    "bf16": round_bf16,
    "q80": round_q80,
}


def naive_tree(parts: list[Floats], exchange: str) -> Floats:
    """((0+1)+(2+3))+…, every node rounded to the exchange format; the parts are rounded already."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    left, right = naive_tree(parts[:middle], exchange), naive_tree(parts[middle:], exchange)
    return ROUNDING[exchange](left + right)


def parts_of_ranks(size: int, n_values: int, exchange: str, seed: int = 0) -> list[Floats]:
    """One vector a rank, of widely different magnitudes, rounded to the exchange format."""
    random = np.random.default_rng([seed, size, n_values])
    parts = []
    for _ in range(size):
        magnitude = np.exp2(random.integers(-30, 20, n_values)).astype(np.float32)
        parts.append(ROUNDING[exchange](random.standard_normal(n_values, np.float32) * magnitude))
    return parts
