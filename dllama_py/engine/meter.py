"""Measures what a piece of work at the root costs."""

import time

from dllama_py.engine.cost import StepCost
from dllama_py.model.rank_model import RankModel
from dllama_py.transport.metered import MeteredComm


class Meter:
    """Runs from its making on."""

    def __init__(self, model: RankModel, comm: MeteredComm) -> None:
        self._started_s = time.perf_counter()
        self._model = model
        self._comm = comm
        self._traffic = comm.traffic
        self._kernel_seconds = model.kernel_seconds

    def cost(self, n_rows: int) -> StepCost:
        """Of so many rows, so far."""
        spent = self._comm.traffic - self._traffic
        return StepCost(
            time.perf_counter() - self._started_s,
            self._model.kernel_seconds - self._kernel_seconds,
            spent.seconds,
            spent.sent_bytes,
            spent.received_bytes,
            n_rows,
        )
