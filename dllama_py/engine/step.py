"""What goes into a step and what comes out of it. Needs no compiled code."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dllama_py.engine.cost import StepCost as StepCost
from dllama_py.engine.scores import Ask, Scores

Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Row:
    """One token to compute: its id, the slot it belongs to, its position there."""

    id: int
    slot: int
    position: int


@dataclass(frozen=True, slots=True)
class Work:
    """Rows that one step is to compute, and the numbers of those of which something is wanted: scores where there is
    an ask for each, else logits. Rows of one slot stand together and continue what the slot holds.
    """

    rows: Sequence[Row]
    wanted: Sequence[int] = ()
    asks: Sequence[Ask] = ()


@dataclass(frozen=True, slots=True)
class StepResult:
    """What was asked of the wanted rows, and what the step cost.

    `logits`: float32 [W, V], of the wanted rows; W is 0 where `scores` of them were asked for instead.
    """

    logits: Floats
    cost: StepCost
    scores: Sequence[Scores] = ()
