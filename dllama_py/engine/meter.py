"""Measures what a piece of work at the root costs."""

import time
from collections.abc import Callable

from dllama_py.engine.cost import StepCost
from dllama_py.model.rank_model import RankModel
from dllama_py.transport.metered import Traffic


class Meter:
    """Runs from its making on. `traffic`: tells the root's messages so far."""

    def __init__(self, model: RankModel, traffic: Callable[[], Traffic]) -> None:
        self.started_s = time.perf_counter()
        self._model = model
        self._traffic = traffic
        self._traffic_before = traffic()
        self._kernel_seconds = model.kernel_seconds

    def cost(self, n_rows: int, elsewhere_s: float = 0.0) -> StepCost:
        """Of so many rows, so far. `elsewhere_s`: in which other stages computed, as far as the root waited."""
        spent = self._traffic() - self._traffic_before
        elsewhere_s = min(elsewhere_s, spent.seconds)
        return StepCost(
            time.perf_counter() - self.started_s,
            self._model.kernel_seconds - self._kernel_seconds + elsewhere_s,
            spent.seconds - elsewhere_s,
            spent.sent_bytes,
            spent.received_bytes,
            n_rows,
        )
