"""A candidate for the next token as one int64, its key. Needs no compiled code.

Above: the logit's bits in an order in which larger keys are larger logits (what is not a number is above all). Below:
the id, counted backwards. So the largest key is the largest logit with the lowest id.
"""

import struct

import numpy as np
from numpy.typing import NDArray

MOST_CANDIDATES = 256  # of one row and rank

MAGNITUDE = 0x7FFFFFFF  # of a float's bits; flipped where the sign is set, they are in order
INFINITY = 0x7F800000  # its bits
LAST_ID = 0xFFFFFFFF
NOTHING = (-0x00800000 ^ MAGNITUDE) << 32  # minus infinity, which nobody chooses, with an id that no token has


def id_of(key: int) -> int:
    """Of one key; 0 where nothing can be chosen."""
    return LAST_ID - (key & LAST_ID) if key != NOTHING else 0


def is_finite(key: int) -> bool:
    """Whether its logit is: neither infinite nor not a number."""
    return NOTHING >> 32 < key >> 32 < INFINITY


def ids_of(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """int64 [n]."""
    return LAST_ID - (keys & LAST_ID)


def logits_of(keys: NDArray[np.int64]) -> NDArray[np.float32]:
    """float32 [n]; 0 for either zero."""
    orders = keys >> 32
    return np.where(orders >= 0, orders, orders ^ MAGNITUDE).astype(np.int32).view(np.float32)


def logit_of(key: int) -> float:
    """Of one key; far quicker than through an array."""
    order = key >> 32
    logit: float = struct.unpack("=f", struct.pack("=i", order if order >= 0 else order ^ MAGNITUDE))[0]
    return logit
