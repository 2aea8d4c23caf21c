"""Some layers of a model that is not loaded yet, as they will run at DECODE_POSITIONS; its weights take no memory."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dllama_py.blocks import FloatType
from dllama_py.kernels.elementary import KEEP_F32
from dllama_py.kernels.layout import GROUP, packed_bytes
from dllama_py.kernels.matmul import Product
from dllama_py.kernels.program import Instruction, Program
from dllama_py.model.buffers import Buffers
from dllama_py.model.kv_cache import KvCache
from dllama_py.model.layers import Layers
from dllama_py.model.rank_model import PAGES
from dllama_py.model.rope import RopeTables
from dllama_py.planning.probe_products import Products, Subject
from dllama_py.planning.speeds import DECODE_POSITIONS, PROBE_ROWS
from dllama_py.sharding.weights import Weights

MOST_LAYERS = 8
TIMED_BYTES = 256_000_000  # of products among which layers are timed at most
WEIGHTED, PLAIN = "matmul_weighted_", "matmul_"


class SomeLayers:
    """The first layers, for rows of one sequence."""

    def __init__(self, subject: Subject, n_threads: int, products: Products) -> None:
        config, context = subject.config, DECODE_POSITIONS + PROBE_ROWS
        self.count = min(MOST_LAYERS, config.n_layers)
        shard = replace(subject.shard, layers=range(self.count), has_head=False)
        self._products = products
        self._buffers = Buffers(config, shard, PROBE_ROWS, n_threads, context)
        self._cache = KvCache(config, shard, 1, context, subject.half_cache)
        tables = np.zeros((2, context, config.head_width // 2), np.float32)
        weights = Weights(config, shard, subject.kinds)
        self._layers = Layers(config, weights, self._buffers, self._cache, RopeTables(*tables), KEEP_F32)

    def without_products(self, n_rows: int) -> Program:
        """All that layers do beside their products; barriers are where they were."""
        self._set_rows(n_rows)
        instructions: list[Instruction] = []
        for part in self.instructions(self.count):
            if not part.kernel.name.startswith(PLAIN):
                instructions.append(part)
            elif part.barrier:
                instructions[-1] = replace(instructions[-1], barrier=True)
        return Program(instructions)

    def with_products(self) -> tuple[Program, int, dict[FloatType, int]]:
        """All that some of the layers do for one row, with products of such sizes: the program, how many layers, the
        bytes of weights of each type. None of layers so large that nothing beside their products counts."""
        self._set_rows(1)
        instructions: list[Instruction] = []
        used_bytes: dict[FloatType, int] = defaultdict(int)
        at = 0
        n_layers = min(self.count, TIMED_BYTES // self._layer_bytes())
        for part in self.instructions(n_layers):
            if not part.kernel.name.startswith(PLAIN):
                instructions.append(part)
                continue
            kind, n_groups, n_blocks, count = self._shape(part)
            size = n_groups * packed_bytes(kind, GROUP, range(n_blocks))
            for _ in range(count):
                at = at if at + size <= self._products.n_bytes else 0
                instructions.append(replace(self._products.product(kind, n_groups, n_blocks, at), barrier=part.barrier))
                at += size
                used_bytes[kind] += size
        return Program(instructions), n_layers, used_bytes

    def instructions(self, n_layers: int) -> Iterator[Instruction]:
        """Of the first layers, as the model has them."""
        for number in range(n_layers):
            for part in PAGES[self._layers.config.arch](self._layers, number):
                if isinstance(part, Instruction):
                    yield part

    def _layer_bytes(self) -> int:
        """Of weights that one row is multiplied with."""
        shapes = [self._shape(part) for part in self.instructions(1) if part.kernel.name.startswith(PLAIN)]
        return sum(
            count * n_groups * packed_bytes(kind, GROUP, range(blocks)) for kind, n_groups, blocks, count in shapes
        )

    def _shape(self, part: Instruction) -> tuple[FloatType, int, int, int]:
        """Type, groups, blocks of the matrix of a product, at most as large as the memory; how many a row takes."""
        kind = FloatType.named(part.kernel.name.removeprefix(WEIGHTED).removeprefix(PLAIN))
        n_groups, n_blocks, n_experts = (
            int(part.arguments[word]) for word in (Product.N_GROUPS, Product.N_BLOCKS, Product.N_EXPERTS)
        )
        most_groups = self._products.n_bytes // packed_bytes(kind, GROUP, range(n_blocks))
        n_active = self._layers.config.n_active_experts if n_experts > 1 else 1
        return kind, min(n_groups, most_groups), n_blocks, n_active

    def _set_rows(self, n_rows: int) -> None:
        b = self._buffers
        b.n_rows[1], b.n_pairs[1] = n_rows, n_rows * self._layers.config.n_active_experts
        for row in range(n_rows):
            self._cache.reach(0, DECODE_POSITIONS + row)
            b.rows[row] = DECODE_POSITIONS + row, self._cache.table_address(0)
