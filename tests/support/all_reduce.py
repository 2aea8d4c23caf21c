"""The all-reduce by itself, on any world."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from dllama_py.kernels.elementary import KEEP_F32, ROUND_BF16, ROUND_Q80
from dllama_py.kernels.program import Program
from dllama_py.kernels.team import Team
from dllama_py.model.all_reduce import AllReduce
from dllama_py.transport.comm import Comm
from dllama_py.wire import Wire, WireWord, empty_words

Floats = NDArray[np.float32]
Way = Literal["doubling", "halving_and_doubling"]
ROUNDINGS = {"f32": KEEP_F32, "bf16": ROUND_BF16, "q80": ROUND_Q80}


class ReadyAllReduce:
    """Sums vectors of one length, again and again."""

    def __init__(self, comm: Comm, n_values: int, exchange: str, way: Way) -> None:
        self.values = np.zeros((1, n_values), np.float32)
        self._count = np.ones(1, np.int64)
        self._wire = comm.wire if comm.size > 1 else Wire(empty_words(), AssertionError)
        steps = AllReduce(self._wire, comm, self.values, self._count, ROUNDINGS[exchange])
        instructions = list(steps.doubling() if way == "doubling" else steps.halving_and_doubling())
        self._program = Program(instructions, self._wire.words[WireWord.TROUBLE :]) if instructions else None
        self._team = Team(1)

    def __call__(self) -> None:
        """Sums `values` over the ranks, in place."""
        if self._program:
            self._team.run(self._program)
        if self._wire[WireWord.TROUBLE]:
            raise self._wire.explain()


def all_reduced(comm: Comm, values: Floats, exchange: str, way: Way) -> Floats:
    """The sum over the ranks of values float32 [n], rounded to the exchange format already."""
    ready = ReadyAllReduce(comm, values.size, exchange, way)
    ready.values[0] = values
    ready()
    return ready.values[0]
