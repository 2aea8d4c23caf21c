"""What one rank measures of itself before a model is loaded: its products, and what a layer does beside them.

Products run over memory that no cache holds, in pieces as large as the model's own matrices; the rest of a layer runs
as in the model, its products left out. A few tenths of a second, once the kernels are compiled.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dllama_py.arena import zeroed
from dllama_py.blocks import BLOCK, FloatType
from dllama_py.config import ModelConfig
from dllama_py.kernels.compiled import warm_up
from dllama_py.kernels.elementary import KEEP_F32
from dllama_py.kernels.layout import GROUP, X_BLOCK_BYTES, packed_bytes
from dllama_py.kernels.matmul import matmul
from dllama_py.kernels.program import Instruction, Program
from dllama_py.kernels.team import Team
from dllama_py.model.buffers import Buffers
from dllama_py.model.kv_cache import KvCache
from dllama_py.model.layers import Layers
from dllama_py.model.rank_model import PAGES
from dllama_py.model.rope import RopeTables
from dllama_py.planning.speeds import DECODE_POSITIONS, PROBE_ROWS
from dllama_py.progress import Progress
from dllama_py.sharding.kinds import Kinds
from dllama_py.sharding.pieces import held_specs, piece_of
from dllama_py.sharding.plan import Shard
from dllama_py.sharding.weights import Weights

FRESH_BYTES = 128_000_000  # more than the caches of home machines hold
FEW_BYTES = 4_000_000  # of what many rows are multiplied with
LEAST_BYTES = 200_000  # of a product: the smallest matrices of the smallest model that is worth its kernels
FILL = 0x3C  # as a half 1.06, as a float32 0.01: sums stay ordinary numbers
MOST_LAYERS = 8  # of the model that are tried
TRIES = 5


@dataclass(frozen=True, slots=True)
class Subject:
    """What a rank is measured for: its part of every layer of a model."""

    config: ModelConfig
    shard: Shard
    kinds: Kinds
    half_cache: bool


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
        self._products = _Products(subject)
        self._layers = _LayersWithoutProducts(subject, team.n_threads)
        kernels = [matmul(kind) for kind in self._products.kinds]
        warm_up([*kernels, *{i.kernel.name: i.kernel for i in self._layers.instructions}.values()], on_progress)

    def one_row(self) -> Rates:
        """Limited by the memory."""
        return self._rates(1, FRESH_BYTES)

    def many_rows(self) -> Rates:
        """PROBE_ROWS of them, limited by arithmetic."""
        return self._rates(PROBE_ROWS, FEW_BYTES)

    def _rates(self, n_rows: int, n_bytes: int) -> Rates:
        weights, rates = {}, {}
        for kind in self._products.kinds:
            program, n_weights, used_bytes = self._products.program(kind, n_rows, n_bytes)
            seconds = self._seconds(program)
            weights[kind], rates[kind] = n_weights / seconds, used_bytes / seconds
        return Rates(weights, rates, self._seconds(self._layers.program(n_rows)) / self._layers.count)

    def _seconds(self, program: Program) -> float:
        """Of the median run."""
        seconds = []
        for _ in range(TRIES):
            started = time.perf_counter()
            self._team.run(program)
            seconds.append(time.perf_counter() - started)
        return max(sorted(seconds)[TRIES // 2], 1e-9)


class _Products:
    """Products over a piece of memory that stands for weights of any type."""

    def __init__(self, subject: Subject) -> None:
        matrices = [spec for spec in held_specs(subject.config, subject.shard) if len(spec.shape) == 2]
        self.kinds = sorted({subject.kinds[spec.name] for spec in matrices}, key=lambda kind: kind.label)
        pieces = [piece_of(spec, subject.shard, subject.config) for spec in matrices if spec.layer is not None]
        self._n_groups = max(sum(len(piece.rows) for piece in pieces) // len(pieces) // GROUP, 1)
        self._n_blocks = subject.config.width // BLOCK
        self._memory = zeroed(FRESH_BYTES)
        self._memory[:] = FILL
        self._x = np.full((PROBE_ROWS, self._n_blocks * 4 * BLOCK), FILL, np.uint8)
        least_groups = LEAST_BYTES // min(self._group_bytes(kind) for kind in self.kinds)
        self._out = np.zeros((PROBE_ROWS, GROUP * max(self._n_groups, least_groups)), np.float32)
        self._rows, self._leaves = np.arange(PROBE_ROWS), np.array([0, self._n_blocks])

    def program(self, kind: FloatType, n_rows: int, n_bytes: int) -> tuple[Program, int, int]:
        """Products one behind the other over about so many bytes; how many weights and bytes they are indeed."""
        group_bytes = self._group_bytes(kind)
        n_groups = min(max(self._n_groups, LEAST_BYTES // group_bytes), n_bytes // group_bytes)
        size = n_groups * group_bytes
        count = n_bytes // size
        starts = np.array([0, n_rows])
        program = Program([self._product(kind, n_groups, i * size, starts) for i in range(count)])
        return program, count * n_groups * GROUP * self._n_blocks * BLOCK, count * size

    def _group_bytes(self, kind: FloatType) -> int:
        return packed_bytes(kind, GROUP, range(self._n_blocks))

    def _product(self, kind: FloatType, n_groups: int, at: int, starts: NDArray[np.int64]) -> Instruction:
        row_bytes = self._n_blocks * (4 * BLOCK if kind.is_float else X_BLOCK_BYTES)
        return matmul(kind)(
            starts=starts,
            x=self._x,
            x_stride=row_bytes,
            x_rows=self._rows,
            weights=self._memory[at:],
            n_groups=n_groups,
            n_blocks=self._n_blocks,
            phase=0,
            out=self._out,
            out_stride=self._out.strides[0],
            out_rows=self._rows,
            leaves=self._leaves,
            n_leaves=1,
            leaf_stride=0,
            n_experts=1,
        )


class _LayersWithoutProducts:
    """The first layers of the model as they will run, at DECODE_POSITIONS; no weight is read or takes memory."""

    def __init__(self, subject: Subject, n_threads: int) -> None:
        config, context = subject.config, DECODE_POSITIONS + PROBE_ROWS
        self.count = min(MOST_LAYERS, config.n_layers)
        shard = replace(subject.shard, layers=range(self.count), has_head=False)
        self._buffers = Buffers(config, shard, PROBE_ROWS, n_threads, context)
        self._cache = KvCache(config, shard, 1, context, subject.half_cache)
        zeros = np.zeros((2, context, config.head_width // 2), np.float32)
        weights = Weights(config, shard, subject.kinds)
        self._layers = Layers(config, weights, self._buffers, self._cache, RopeTables(*zeros), KEEP_F32)
        self.instructions = self._without_products()

    def program(self, n_rows: int) -> Program:
        """All layers for so many rows of one sequence."""
        b, k = self._buffers, self._layers.config.n_active_experts
        b.n_rows[1], b.n_pairs[1] = n_rows, n_rows * k
        for row in range(n_rows):
            self._cache.reach(0, DECODE_POSITIONS + row)
            b.rows[row] = DECODE_POSITIONS + row, self._cache.table_address(0)
        return Program(self.instructions)

    def _without_products(self) -> Sequence[Instruction]:
        """Barriers stay where they were."""
        instructions: list[Instruction] = []
        for number in range(self.count):
            for part in PAGES[self._layers.config.arch](self._layers, number):
                if not isinstance(part, Instruction):
                    continue
                if not part.kernel.name.startswith("matmul"):
                    instructions.append(part)
                elif part.barrier:
                    instructions[-1] = replace(instructions[-1], barrier=True)
        return instructions
