"""One rank's model: a step's rows go in, logits of the wanted rows come out. Root and workers run the same.

`forward` is the only forward there is: prefill, decode, a batch of requests and the check of drafted tokens differ
only in their rows.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dllama_py.config import Arch, ModelConfig
from dllama_py.kernels.memory import read_stream
from dllama_py.kernels.program import Instruction, Kernel, Program
from dllama_py.kernels.team import Team
from dllama_py.model import llama, qwen3, qwen3_moe
from dllama_py.model.buffers import Buffers
from dllama_py.model.kv_cache import KvCache
from dllama_py.model.layers import Layers, Part

PAGES: dict[Arch, Callable[[Layers, int], Iterator[Part]]] = {
    Arch.LLAMA: llama.layer,
    Arch.QWEN3: qwen3.layer,
    Arch.QWEN3_MOE: qwen3_moe.layer,
}

READ_TRIES = 5

AllReduce = Callable[[NDArray[np.float32]], None]


@dataclass(frozen=True, slots=True)
class Step:
    """Rows to compute. `slots`, `positions`: int64 [T]; `wanted`: int64 [W], rows whose logits are asked for.

    Rows of one slot stand together, in ascending positions that follow what the slot holds. `n_candidates`: of each
    wanted row, 0 where its logits are wanted instead; then of each wanted row `n_tokens`, int64 [W], ids below may be
    chosen, and `inverse_temperatures`, float32 [W], 0 where no sums are wanted.
    """

    slots: NDArray[np.int64]
    positions: NDArray[np.int64]
    wanted: NDArray[np.int64]
    n_candidates: int
    n_tokens: NDArray[np.int64]
    inverse_temperatures: NDArray[np.float32]


class RankModel:
    """Programs, ready to run. `all_reduce` adds float32 vectors over the ranks in place; None on one rank."""

    def __init__(
        self, layers: Layers, buffers: Buffers, cache: KvCache, team: Team, all_reduce: AllReduce | None
    ) -> None:
        self.config: ModelConfig = layers.config
        self.buffers = buffers
        self.cache = cache
        self._team = team
        self._all_reduce = all_reduce or _alone
        self._segments = [Program(part) for part in _segments(layers, joined=all_reduce is None)]
        self._head = Program(layers.head())

    def forward(self, step: Step) -> NDArray[np.float32]:
        """Logits float32 [W, rows of the vocabulary here]; `buffers.x` holds the embedded rows [T, D]."""
        self._set(step)
        sums = self.buffers.sum[: len(step.slots)].reshape(-1)
        *summing, last = self._segments
        for segment in summing:
            self._team.run(segment)
            self._all_reduce(sums)
        self._team.run(last)
        if len(step.wanted):
            self._team.run(self._head)
        return self.buffers.logits[: len(step.wanted)]

    @property
    def kernel_seconds(self) -> float:
        """Spent in compiled programs so far."""
        return self._team.seconds

    def read_seconds(self, n_bytes: int, ready: Callable[[], None]) -> list[float]:
        """Of some streams over fresh memory; `ready` returns when all ranks have come there."""
        memory = np.ones(n_bytes, np.uint8)
        found = np.zeros((self._team.n_threads, 16), np.int32)
        stream = Program([read_stream(x=memory, n_bytes=memory.nbytes, out=found)])
        seconds = []
        for _ in range(READ_TRIES):
            ready()
            started = time.perf_counter()
            self._team.run(stream)
            seconds.append(time.perf_counter() - started)
        return seconds

    def _set(self, step: Step) -> None:
        b, n_rows = self.buffers, len(step.slots)
        b.n_rows[1] = n_rows
        b.n_pairs[1] = n_rows * self.config.n_active_experts
        b.n_wanted[1] = len(step.wanted)
        b.wanted[: len(step.wanted)] = step.wanted
        b.n_candidates[0] = step.n_candidates
        b.n_tokens[: len(step.wanted)] = step.n_tokens
        b.inverse_temperatures[: len(step.wanted)] = step.inverse_temperatures
        for row, (slot, position) in enumerate(zip(step.slots.tolist(), step.positions.tolist(), strict=True)):
            self.cache.reach(slot, position)
            b.rows[row] = position, self.cache.table_address(slot)


def _alone(sums: NDArray[np.float32]) -> None:
    """One rank's sums are all there is."""


def kernels_of(layers: Layers) -> list[Kernel]:
    """All kernels that a model of these layers runs, each once; nothing is compiled yet."""
    instructions = [*layers.head(), *(i for segment in _segments(layers, joined=True) for i in segment)]
    return list({instruction.kernel.name: instruction.kernel for instruction in instructions}.values())


def _segments(layers: Layers, joined: bool) -> list[list[Instruction]]:
    """Instructions between exchanges; all in one where nobody exchanges."""
    page = PAGES[layers.config.arch]
    segments: list[list[Instruction]] = [[]]
    for number in range(layers.config.n_layers):
        for part in page(layers, number):
            if isinstance(part, Instruction):
                segments[-1].append(part)
            elif not joined:
                segments.append([])
    return segments
