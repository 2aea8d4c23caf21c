"""What one rank measures of itself before a model is loaded: its products, and what a layer does beside them.

Products of one type run over memory that no cache holds, in pieces as large as the model's own matrices. Then layers
run as in the model, over the same memory; what is left when their products are taken away is the layer itself. Some
tenths of a second, once the kernels are compiled.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from dllama_py.blocks import FloatType
from dllama_py.kernels.compiled import warm_up
from dllama_py.kernels.matmul import matmul
from dllama_py.kernels.program import Program
from dllama_py.kernels.team import Team
from dllama_py.planning.probe_layers import Multiplied, SomeLayers
from dllama_py.planning.probe_products import Products, Subject
from dllama_py.planning.speeds import PROBE_ROWS
from dllama_py.progress import Progress

FEW_BYTES = 16_000_000  # of what many rows are multiplied with
TRIES, LEAST_S, ENOUGH_S = 3, 0.03, 0.1  # until the caches hold what they will; long runs need fewer tries
LONGEST_PAUSE_S = 0.03


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
        self._n_all_layers = subject.config.n_layers
        self._products = Products(subject)
        self._layers = SomeLayers(subject, team.n_threads, self._products)
        kernels = {part.kernel.name: part.kernel for part in self._layers.instructions(self._layers.most)}
        warm_up([*map(matmul, self._products.kinds), *kernels.values()], on_progress)

    def one_row(self) -> Rates:
        """Limited by the memory."""
        weights_per_s, bytes_per_s = self._products_per_s(1, self._products.n_bytes)
        layer_s = self._layer_s(1, self._products.n_bytes, lambda part: part.n_bytes / bytes_per_s[part.kind])
        return Rates(weights_per_s, bytes_per_s, layer_s)

    def many_rows(self) -> Rates:
        """PROBE_ROWS of them, limited by arithmetic."""
        n_bytes = min(FEW_BYTES, self._products.n_bytes)
        weights_per_s, bytes_per_s = self._products_per_s(PROBE_ROWS, n_bytes)
        layer_s = self._layer_s(PROBE_ROWS, n_bytes, lambda part: part.n_weights / weights_per_s[part.kind])
        return Rates(weights_per_s, bytes_per_s, layer_s)

    def waking_s(self, share: float) -> float:
        """How much longer some layers take when the rank has slept before, for this share of a token's time: caches
        hold others' data by then, and a virtual machine has given its core away. Nothing, of layers that are larger
        than the memory."""
        if self._products.layer_bytes > self._products.n_bytes:
            return 0.0
        n_layers = self._n_layers(FEW_BYTES)
        program, _ = self._layers.with_products(1, n_layers)
        awake_s = self._seconds(program)
        pause_s = min(share * awake_s * self._n_all_layers / n_layers, LONGEST_PAUSE_S)
        asleep_s = []
        for _ in range(TRIES):
            time.sleep(pause_s)
            asleep_s.append(self._run_s(program))
        return max(sorted(asleep_s)[TRIES // 2] - awake_s, 0.0)

    def _n_layers(self, most_bytes: int) -> int:
        """That have so many bytes of weights together, one at least."""
        return min(self._layers.most, max(most_bytes // self._products.layer_bytes, 1))

    def _layer_s(self, n_rows: int, most_bytes: int, seconds_of: Callable[[Multiplied], float]) -> float:
        """Of a layer beside its products, which take so long. Layers too large for the memory are not run with them;
        there the products are nearly everything."""
        n_layers = self._n_layers(most_bytes)
        alone_s = self._seconds(self._layers.without_products(n_rows, n_layers))
        if self._products.layer_bytes > most_bytes:
            return alone_s / n_layers
        program, multiplied = self._layers.with_products(n_rows, n_layers)
        return max(self._seconds(program) - sum(map(seconds_of, multiplied)), alone_s) / n_layers

    def _products_per_s(self, n_rows: int, n_bytes: int) -> tuple[dict[FloatType, float], dict[FloatType, float]]:
        """Weights and their bytes."""
        weights, rates = {}, {}
        for kind in self._products.kinds:
            program, n_weights, used_bytes = self._products.program(kind, n_rows, n_bytes)
            seconds = self._seconds(program)
            weights[kind], rates[kind] = n_weights / seconds, used_bytes / seconds
        return weights, rates

    def _seconds(self, program: Program) -> float:
        """Of a run, when it has run for a while."""
        seconds: list[float] = []
        while sum(seconds) < LEAST_S or (len(seconds) < TRIES and sum(seconds) < ENOUGH_S):
            seconds.append(self._run_s(program))
        settled = sorted(seconds[len(seconds) // 2 :])
        return max(settled[(len(settled) - 1) // 2], 1e-9)

    def _run_s(self, program: Program) -> float:
        started = time.perf_counter()
        self._team.run(program)
        return time.perf_counter() - started
