"""One rank's model: a step's rows go in, logits of the wanted rows come out. Root and workers run the same.

`forward` is the only forward there is: prefill, decode, a batch of requests and the check of drafted tokens differ
only in their rows.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
from numpy.typing import NDArray

from dllama_py.config import Arch, ModelConfig
from dllama_py.cost_model import NEVER
from dllama_py.kernels.memory import read_stream
from dllama_py.kernels.prefetch import STREAM
from dllama_py.kernels.program import Instruction, Kernel, Program
from dllama_py.kernels.read_patterns import settle_patterns
from dllama_py.kernels.team import Team
from dllama_py.model import gemma3, gpt_oss, llama, mixtral, qwen2, qwen2_moe, qwen3, qwen3_moe
from dllama_py.model.all_reduce import AllReduce
from dllama_py.model.buffers import Buffers
from dllama_py.model.kv_cache import KvCache
from dllama_py.model.layers import Exchange, Layers, Look, Part
from dllama_py.model.residual_log import EVERY_STEPS
from dllama_py.wire import Wire, WireWord

PAGES: dict[Arch, Callable[[Layers, int], Iterator[Part]]] = {
    Arch.LLAMA: llama.layer,
    Arch.MIXTRAL: mixtral.layer,
    Arch.QWEN2: qwen2.layer,
    Arch.QWEN2_MOE: qwen2_moe.layer,
    Arch.QWEN3: qwen3.layer,
    Arch.QWEN3_MOE: qwen3_moe.layer,
    Arch.GEMMA3: gemma3.layer,
    Arch.GPT_OSS: gpt_oss.layer,
}

READ_TRIES = 5

Words = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Step:
    """Rows to compute: of each its slot and position; `wanted`: the W rows whose logits are asked for.

    Rows of one slot stand together, in ascending positions that follow what the slot holds. `n_candidates`: of each
    wanted row, 0 where its logits are wanted instead; then of each wanted row `n_tokens`, ids below may be chosen,
    and `inverse_temperatures`, in float32's range, 0 where no sums are wanted.
    """

    slots: Sequence[int]
    positions: Sequence[int]
    wanted: Sequence[int]
    n_candidates: int
    n_tokens: Sequence[int]
    inverse_temperatures: Sequence[float]


class RankModel:
    """Programs, ready to run. `all_reduce` adds `buffers.sum` over the ranks; None on one rank."""

    def __init__(
        self, layers: Layers, buffers: Buffers, cache: KvCache, team: Team, all_reduce: AllReduce | None
    ) -> None:
        self.config: ModelConfig = layers.config
        self.buffers = buffers
        self.cache = cache
        self._places = _Places(buffers)
        self._team = team
        self._wire = all_reduce.wire if all_reduce else None
        self._owner = self._wire.owner if self._wire else nullcontext()
        halt = self._wire.words[WireWord.TROUBLE :] if self._wire else None
        self._long_from_rows = -(-all_reduce.long_from_values // self.config.width) if all_reduce else NEVER
        self._plain, self._hashed = (self._programs(layers, all_reduce, halt, is_hashed) for is_hashed in (False, True))
        self.log = layers.log
        self.hash_every = EVERY_STEPS if all_reduce else NEVER  # steps
        self._n_steps = 0

    def forward(self, step: Step) -> NDArray[np.float32]:
        """Logits float32 [W, rows of the vocabulary here]; `buffers.x` holds the embedded rows [T, D].

        ClusterError if an exchange fails or another rank is lost.
        """
        self._set(step)
        self._n_steps += 1
        short, long = self._hashed if self.was_hashed else self._plain
        with self._owner:
            self._team.run(long if len(step.slots) >= self._long_from_rows else short)
        if self._wire and self._wire[WireWord.TROUBLE]:
            raise self._wire.explain()
        return self.buffers.logits[: len(step.wanted)]

    @property
    def was_hashed(self) -> bool:
        """Whether `log` is of the last step: the first and then one in `hash_every`, the same ones on all ranks."""
        return self.hash_every != NEVER and (self._n_steps - 1) % self.hash_every == 0

    @property
    def kernel_seconds(self) -> float:
        """Spent in compiled programs so far, without the exchanges in them."""
        return self._team.seconds - (1e-9 * self._wire[WireWord.NANOSECONDS] if self._wire else 0)

    def read_seconds(self, n_bytes: int, ready: Callable[[], None]) -> list[float]:
        """Of some streams over fresh memory; `ready` returns when all ranks have come there."""
        settle_patterns([STREAM])
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

    def _programs(
        self, layers: Layers, all_reduce: AllReduce | None, halt: Words | None, is_hashed: bool
    ) -> tuple[Program, Program]:
        """For few rows and for many."""
        if all_reduce is None:
            alone = Program(_instructions(layers, None, _alone, is_hashed), halt)
            return alone, alone
        wire = all_reduce.wire
        short = Program(_instructions(layers, wire, all_reduce.doubling, is_hashed), halt)
        if self._long_from_rows > self.buffers.max_rows:
            return short, short
        return short, Program(_instructions(layers, wire, all_reduce.halving_and_doubling, is_hashed), halt)

    def _set(self, step: Step) -> None:
        """Writes the step where the kernels read it, word by word: for one row numpy costs more than the work."""
        at, n_rows, n_wanted = self._places, len(step.slots), len(step.wanted)
        at.n_rows[1], at.n_wanted[1] = n_rows, n_wanted
        at.n_pairs[1] = n_rows * self.config.n_active_experts
        at.n_candidates[0] = step.n_candidates
        for number in range(n_wanted):
            at.wanted[number] = step.wanted[number]
            at.n_tokens[number] = step.n_tokens[number]
            at.inverse_temperatures[number] = step.inverse_temperatures[number]
        for row, (slot, position) in enumerate(zip(step.slots, step.positions, strict=True)):
            self.cache.reach(slot, position)
            at.rows[2 * row], at.rows[2 * row + 1] = position, self.cache.table_address(slot)


class _Places:
    """What the buffers say of a step, as plain memory."""

    def __init__(self, buffers: Buffers) -> None:
        self.n_rows = buffers.n_rows.data
        self.n_pairs = buffers.n_pairs.data
        self.n_wanted = buffers.n_wanted.data
        self.n_candidates = buffers.n_candidates.data
        self.wanted = buffers.wanted.data
        self.n_tokens = buffers.n_tokens.data
        self.inverse_temperatures = cast("memoryview[float]", buffers.inverse_temperatures.data)
        self.rows = buffers.rows.reshape(-1).data


def _alone() -> Iterator[Instruction]:
    """One rank's sums are all there is."""
    return iter(())


def kernels_of(layers: Layers, all_reduce: AllReduce | None) -> list[Kernel]:
    """All kernels that a model of these layers runs, each once; nothing is compiled yet."""
    wire = all_reduce.wire if all_reduce else None
    exchanges = [*all_reduce.doubling(), *all_reduce.halving_and_doubling()] if all_reduce else []
    instructions = [*_instructions(layers, wire, _alone, is_hashed=True), *exchanges]
    return list({instruction.kernel.name: instruction.kernel for instruction in instructions}.values())


def _instructions(
    layers: Layers, wire: Wire | None, exchange: Callable[[], Iterator[Instruction]], is_hashed: bool
) -> list[Instruction]:
    """The rank's layers, with the exchanges in their places, and if it has the last one the head, which does nothing
    where no row is wanted.
    """
    page = PAGES[layers.config.arch]
    instructions = [layers.log.hash_residual(layers.numbers.start)] if is_hashed else []
    for number in layers.numbers:
        for part in page(layers, number):
            match part:
                case Instruction():
                    instructions.append(part)
                case Exchange():
                    _follow(instructions, list(exchange()))
                case Look(instruction) if is_hashed:
                    _follow(instructions, [instruction])
        if is_hashed:
            instructions.append(layers.log.hash_residual(number + 1))
    return instructions + (layers.head(wire) if layers.has_head else [])


def _follow(instructions: list[Instruction], others: list[Instruction]) -> None:
    """Adds instructions that read what all threads have written in the last."""
    if others:
        instructions[-1] = replace(instructions[-1], barrier=True)
        instructions += others
