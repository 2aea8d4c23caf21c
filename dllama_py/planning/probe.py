"""What one rank measures of itself before a model is loaded: its products, and what a layer does beside them.

Products of each type run over memory that no cache holds, in pieces as large as the model's own matrices: each type has
a part of it and they take turns, so more types take no more time. Then layers run as in the model, over the same
memory; what is left when their products are taken away is the layer itself. Some tenths of a second, once the kernels
are compiled.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dllama_py.blocks import FloatType
from dllama_py.kernels.compiled import warm_up
from dllama_py.kernels.matmul import matmul
from dllama_py.kernels.program import Program
from dllama_py.kernels.read_patterns import settle_patterns
from dllama_py.kernels.team import Team
from dllama_py.planning.probe_layers import Multiplied, SomeLayers
from dllama_py.planning.probe_products import MOST_BYTES, Products, Subject, TimedProducts
from dllama_py.planning.speeds import FEW_ROWS, PROBE_ROWS
from dllama_py.progress import Progress

FEW_BYTES = 16_000_000  # of what many rows are multiplied with
TRIES, LEAST_S, ENOUGH_S = 3, 0.03, 0.1  # until the caches hold what they will; long runs need fewer tries
BUSY_S = 0.1  # longer than the turns in which processes get a core
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

    def __init__(self, subject: Subject, team: Team, on_progress: Progress, for_all: bool = True) -> None:
        """`for_all`: all is to be measured; else `busy_macs_per_s` alone."""
        self._team = team
        self._n_all_layers = subject.config.n_layers
        self._products = Products(subject, MOST_BYTES if for_all else FEW_BYTES)
        self._layers = SomeLayers(subject, team.n_threads, self._products)
        kernels = {part.kernel.name: part.kernel for part in self._layers.instructions(self._layers.most)}
        warm_up([*map(matmul, self._products.kinds), *kernels.values()], on_progress)
        settle_patterns([kind.label for kind in self._products.kinds])

    def one_row(self) -> Rates:
        """Limited by the memory."""
        weights_per_s, bytes_per_s = self._products_per_s(1, self._products.n_bytes)
        layer_s = self._layer_s(1, self._products.n_bytes, lambda part: part.n_bytes / bytes_per_s[part.kind])
        return Rates(weights_per_s, bytes_per_s, layer_s)

    def few_rows(self) -> dict[FloatType, float]:
        """Weights of each type that FEW_ROWS rows are multiplied with in a second."""
        return self._products_per_s(FEW_ROWS, self._products.n_bytes // 2)[0]

    def many_rows(self) -> Rates:
        """PROBE_ROWS of them, limited by arithmetic."""
        n_bytes = min(FEW_BYTES, self._products.n_bytes)
        weights_per_s, bytes_per_s = self._products_per_s(PROBE_ROWS, n_bytes)
        layer_s = self._layer_s(PROBE_ROWS, n_bytes, lambda part: part.n_weights / weights_per_s[part.kind])
        return Rates(weights_per_s, bytes_per_s, layer_s)

    def busy_macs_per_s(self) -> dict[FloatType, float]:
        """Of PROBE_ROWS rows with weights of each type, on average over a while in which others are at work too."""
        macs_per_s = {}
        for timed in self._timed_products(PROBE_ROWS, min(FEW_BYTES, self._products.n_bytes)):
            seconds = [self._run_s(timed.program)]
            while sum(seconds) < BUSY_S / len(self._products.kinds):
                seconds.append(self._run_s(timed.program))
            macs_per_s[timed.kind] = len(seconds) * PROBE_ROWS * timed.n_weights / sum(seconds)
        return macs_per_s

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
        timed = self._timed_products(n_rows, n_bytes)
        seconds = self._seconds_of([each.program for each in timed])
        return (
            {each.kind: each.n_weights / each_s for each, each_s in zip(timed, seconds, strict=True)},
            {each.kind: each.n_bytes / each_s for each, each_s in zip(timed, seconds, strict=True)},
        )

    def _timed_products(self, n_rows: int, n_bytes: int) -> list[TimedProducts]:
        """Of each type, over parts of so many bytes of the memory."""
        kinds = self._products.kinds
        size = n_bytes // len(kinds)
        return [self._products.of_kind(kind, n_rows, range(i * size, (i + 1) * size)) for i, kind in enumerate(kinds)]

    def _seconds(self, program: Program) -> float:
        """Of a run, when it has run for a while."""
        return self._seconds_of([program])[0]

    def _seconds_of(self, programs: Sequence[Program]) -> list[float]:
        """Of a run of each, when they have run for a while, one after the other."""
        rounds: list[list[float]] = []
        spent_s = 0.0
        while spent_s < LEAST_S or (len(rounds) < TRIES and spent_s < ENOUGH_S):
            rounds.append([self._run_s(program) for program in programs])
            spent_s += sum(rounds[-1])
        settled = rounds[len(rounds) // 2 :]
        return [max(sorted(each)[(len(each) - 1) // 2], 1e-9) for each in zip(*settled, strict=True)]

    def _run_s(self, program: Program) -> float:
        started = time.perf_counter()
        self._team.run(program)
        return time.perf_counter() - started
