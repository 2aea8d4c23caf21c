"""What one rank measures of itself before a model is loaded: its products, and what a layer does beside them.

Products run over memory that no cache holds, in pieces as large as the model's own matrices. The rest of a layer runs
as in the model: for one row among such products, after which what it needs is no longer in the caches; for many rows,
which keep it there, by itself. Some tenths of a second, once the kernels are compiled.
"""

import time
from dataclasses import dataclass

from dllama_py.blocks import FloatType
from dllama_py.kernels.compiled import warm_up
from dllama_py.kernels.matmul import matmul
from dllama_py.kernels.program import Program
from dllama_py.kernels.team import Team
from dllama_py.planning.probe_layers import PLAIN, SomeLayers
from dllama_py.planning.probe_products import Products, Subject
from dllama_py.planning.speeds import PROBE_ROWS
from dllama_py.progress import Progress

FEW_BYTES = 4_000_000  # of what many rows are multiplied with
TRIES = 3


@dataclass(frozen=True, slots=True)
class Rates:
    """For so many rows: weights of each type that are multiplied in a second, and their bytes; seconds of a layer
    beside its products."""

    weights_per_s: dict[FloatType, float]
    bytes_per_s: dict[FloatType, float]
    layer_s: float


class Probe:
    """Everything ready to be timed; making it compiles what has not been compiled yet."""

    def __init__(self, subject: Subject, team: Team, on_progress: Progress) -> None:
        self._team = team
        self._products = Products(subject)
        self._layers = SomeLayers(subject, team.n_threads, self._products)
        kernels = {part.kernel.name: part.kernel for part in self._layers.instructions(self._layers.count)}
        own = {name: kernel for name, kernel in kernels.items() if not name.startswith(PLAIN)}
        warm_up([*map(matmul, self._products.kinds), *own.values()], on_progress)

    def one_row(self) -> Rates:
        """Limited by the memory."""
        weights_per_s, bytes_per_s = self._products_per_s(1, self._products.n_bytes)
        layer_s = self._seconds(self._layers.without_products(1)) / self._layers.count
        among, n_layers, used_bytes = self._layers.with_products()
        if n_layers:
            products_s = sum(n_bytes / bytes_per_s[kind] for kind, n_bytes in used_bytes.items())
            layer_s = max((self._seconds(among) - products_s) / n_layers, layer_s)
        return Rates(weights_per_s, bytes_per_s, layer_s)

    def many_rows(self) -> Rates:
        """PROBE_ROWS of them, limited by arithmetic."""
        layers_s = self._seconds(self._layers.without_products(PROBE_ROWS))
        return Rates(*self._products_per_s(PROBE_ROWS, FEW_BYTES), layers_s / self._layers.count)

    def _products_per_s(self, n_rows: int, n_bytes: int) -> tuple[dict[FloatType, float], dict[FloatType, float]]:
        """Weights and their bytes."""
        weights, rates = {}, {}
        for kind in self._products.kinds:
            program, n_weights, used_bytes = self._products.program(kind, n_rows, n_bytes)
            seconds = self._seconds(program)
            weights[kind], rates[kind] = n_weights / seconds, used_bytes / seconds
        return weights, rates

    def _seconds(self, program: Program) -> float:
        """Of the median run."""
        seconds = []
        for _ in range(TRIES):
            started = time.perf_counter()
            self._team.run(program)
            seconds.append(time.perf_counter() - started)
        return max(sorted(seconds)[TRIES // 2], 1e-9)
