"""What goes into a step and what it cost. Needs no compiled code."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Row:
    """One token to compute: its id, the slot it belongs to, its position there."""

    id: int
    slot: int
    position: int


@dataclass(frozen=True, slots=True)
class StepCost:
    """Of one forward at the root: seconds in all, in kernels and in messages (the rest is Python), its bytes."""

    seconds: float
    kernel_seconds: float
    sync_seconds: float
    sent_bytes: int
    received_bytes: int
    n_rows: int


@dataclass(frozen=True, slots=True)
class StepResult:
    """Logits float32 [W, V] of the rows that were wanted, and what the step cost."""

    logits: Floats
    cost: StepCost
