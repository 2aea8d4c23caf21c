"""Some layers of a model that is not loaded yet, as they will run at DECODE_POSITIONS; its weights take no memory."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dllama_py.blocks import BLOCK, FloatType
from dllama_py.kernels.elementary import KEEP_F32
from dllama_py.kernels.layout import GROUP, packed_bytes
from dllama_py.kernels.product_words import Product
from dllama_py.kernels.program import Instruction, Program
from dllama_py.model.buffers import Buffers
from dllama_py.model.kv_cache import KvCache
from dllama_py.model.layers import Layers
from dllama_py.model.rank_model import PAGES
from dllama_py.model.rope import RopeTables
from dllama_py.planning.probe_products import Products, Subject
from dllama_py.planning.speeds import DECODE_POSITIONS, PROBE_ROWS
from dllama_py.sharding.weights import Weights

MOST_LAYERS = 32
WEIGHTED, PLAIN = "matmul_weighted_", "matmul_"


@dataclass(frozen=True, slots=True)
class Multiplied:
    """What a product of a program reads, of all experts that are used."""

    kind: FloatType
    n_bytes: int
    n_weights: int


class SomeLayers:
    """The first layers, for rows of one sequence."""

    def __init__(self, subject: Subject, n_threads: int, products: Products) -> None:
        config, context = subject.config, DECODE_POSITIONS + PROBE_ROWS
        self.most = min(MOST_LAYERS, config.n_layers, max(products.n_bytes // products.layer_bytes, 1))
        shard = replace(subject.shard, layers=range(self.most), has_head=False)
        self._products = products
        self._buffers = Buffers(config, shard, PROBE_ROWS, n_threads, context)
        self._cache = KvCache(config, shard, 1, context, subject.half_cache)
        for layer in shard.layers:  # what was never written is one and the same page of zeros
            self._cache.keys(layer)[...] = 0
            self._cache.values(layer)[...] = 0
        tables = np.zeros((2, context, config.head_width // 2), np.float32)
        weights = Weights(config, shard, subject.kinds)
        self._layers = Layers(config, weights, self._buffers, self._cache, RopeTables(*tables), KEEP_F32)

    def without_products(self, n_rows: int, n_layers: int) -> Program:
        """All that layers do beside their products; barriers are where they were."""
        self._set_rows(n_rows)
        instructions: list[Instruction] = []
        for part in self.instructions(n_layers):
            if not part.kernel.name.startswith(PLAIN):
                instructions.append(part)
            elif part.barrier:
                instructions[-1] = replace(instructions[-1], barrier=True)
        return Program(instructions)

    def with_products(self, n_rows: int, n_layers: int) -> tuple[Program, list[Multiplied]]:
        """All that layers do, each with other weights. As these are all alike, rows choose the first experts."""
        self._set_rows(n_rows)
        instructions: list[Instruction] = []
        multiplied: list[Multiplied] = []
        at = 0
        for part in self.instructions(n_layers):
            if part.kernel.name.startswith(PLAIN):
                found = self._multiplied(part)
                at = at if at + found.n_bytes <= self._products.n_bytes else 0
                part = replace(part, arguments=self._products.moved(part.arguments, at))
                at += found.n_bytes
                multiplied.append(found)
            instructions.append(part)
        return Program(instructions), multiplied

    def instructions(self, n_layers: int) -> Iterator[Instruction]:
        """Of the first layers, as the model has them."""
        for number in range(n_layers):
            for part in PAGES[self._layers.config.arch](self._layers, number):
                if isinstance(part, Instruction):
                    yield part

    def _multiplied(self, part: Instruction) -> Multiplied:
        kind = FloatType.named(part.kernel.name.removeprefix(WEIGHTED).removeprefix(PLAIN))
        n_groups, n_blocks, n_experts = (
            int(part.arguments[word]) for word in (Product.N_GROUPS, Product.N_BLOCKS, Product.N_EXPERTS)
        )
        n_used = self._layers.config.n_active_experts if n_experts > 1 else 1
        n_bytes = n_used * n_groups * packed_bytes(kind, GROUP, range(n_blocks))
        return Multiplied(kind, n_bytes, n_used * n_groups * GROUP * n_blocks * BLOCK)

    def _set_rows(self, n_rows: int) -> None:
        b = self._buffers
        b.n_rows[1], b.n_pairs[1] = n_rows, n_rows * self._layers.config.n_active_experts
        for row in range(n_rows):
            self._cache.reach(0, DECODE_POSITIONS + row)
            b.rows[row] = DECODE_POSITIONS + row, self._cache.table_address(0)
