"""What goes into a step and what comes out of it. Needs no compiled code."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dllama_py.engine.cost import StepCost as StepCost
from dllama_py.engine.scores import Ask, Scores

Floats = NDArray[np.float32]
UnderWay = Any  # a step that was submitted, as only who runs it knows it


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

    `is_ahead`: they continue guesses that are under way; a sequence's next work that is not ahead makes such void.
    """

    rows: Sequence[Row]
    wanted: Sequence[int] = ()
    asks: Sequence[Ask] = ()
    is_ahead: bool = False


NOTHING_MORE = Work((), is_ahead=True)  # for now, until something is known of the works under way


@dataclass(frozen=True, slots=True)
class StepResult:
    """What was asked of the wanted rows, and what the step cost.

    `logits`: float32 [W, V], of the wanted rows; W is 0 where `scores` of them were asked for instead.
    """

    logits: Floats
    cost: StepCost
    scores: Sequence[Scores] = ()


class Steps(Protocol):
    """Runs steps: what sequences and loops need of `runner.Runner`."""

    max_rows: int
    context: int

    @property
    def n_stages(self) -> int: ...

    @property
    def n_in_flight(self) -> int: ...

    def forward(self, work: Work, /) -> StepResult: ...

    def submit(self, work: Work, /) -> UnderWay: ...

    def is_there(self, step: UnderWay, /) -> bool: ...

    def collect(self, step: UnderWay, /) -> StepResult: ...

    def recall(self, steps: Sequence[UnderWay], /) -> None: ...

    def cut(self, slot: int, length: int, /) -> None: ...
