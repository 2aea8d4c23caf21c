"""What a rank needs in memory, counted from sizes alone: nothing is allocated, no compiled code is needed."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dllama_py.config import ModelConfig
from dllama_py.kernels.layout import GROUP, PAGE, n_groups
from dllama_py.model.buffers import Buffers
from dllama_py.model.rope import n_tables
from dllama_py.settings import DEFAULT_CHUNK_ROWS
from dllama_py.sharding.grid import answers_on_their_way, steps_in_flight
from dllama_py.sharding.kinds import Kinds
from dllama_py.sharding.pieces import held_specs, packed_piece_bytes
from dllama_py.sharding.plan import Shard

ASSUMED_THREADS = 8  # a thread adds its scratch, 0.1 MB at 4096 positions
GATHERED_ROWS = 4  # of logits, from the ranks of a stage at once
N_ROOMS = 2  # for messages of one sender, at the least
WORDS_PER_ROW = 6  # of a step, at most: five, and its head
GUESSED_ROWS = 16  # of a step that checks guesses, at most
READ_BYTES = 5 << 28  # of all ranks together, to measure how fast they stream memory: 1.25 GiB, above any cache
PYTHON_BYTES = 200_000_000  # measured: 75 MB with its libraries; 180 MB in the rank that compiles the kernels


@dataclass(frozen=True, slots=True)
class StepSize:
    """What else buffers and cache grow with: rows of a step, threads of a rank, sequences at once, stages."""

    chunk_rows: int = DEFAULT_CHUNK_ROWS
    n_threads: int = ASSUMED_THREADS
    n_slots: int = 1
    n_stages: int = 1


USUAL_STEP = StepSize()


@dataclass(frozen=True, slots=True)
class RankMemory:
    """Bytes of one rank, for sequences that fill the context. `python_bytes`: the program itself and its libraries;
    `draft_bytes`: all that a small model needs that guesses there.
    """

    weights_bytes: int
    cache_bytes: int
    buffers_bytes: int  # activations, RoPE tables, norms
    python_bytes: int = PYTHON_BYTES
    draft_bytes: int = 0

    @property
    def total_bytes(self) -> int:
        return self.weights_bytes + self.cache_bytes + self.buffers_bytes + self.python_bytes + self.draft_bytes


def rank_memories(
    config: ModelConfig,
    shards: Iterable[Shard],
    kinds: Kinds,
    context: int,
    half_cache: bool,
    step: StepSize = USUAL_STEP,
) -> list[RankMemory]:
    """The memory of every rank, the root first."""
    held = list(shards)
    memories = [_rank_memory(config, shard, kinds, context, half_cache, step) for shard in held]
    last = next((shard for shard in held if shard.has_head), held[0])
    root = replace(memories[0], buffers_bytes=memories[0].buffers_bytes + root_bytes(config, last, context, step))
    return [root, *memories[1:]]


def _rank_memory(
    config: ModelConfig, shard: Shard, kinds: Kinds, context: int, half_cache: bool, step: StepSize
) -> RankMemory:
    specs = [spec for spec in held_specs(config, shard) if not spec.expert]
    vectors_bytes = sum(spec.n_elements * 4 for spec in specs if len(spec.shape) == 1)
    rope_bytes = n_tables(config) * context * config.head_width * 4
    return RankMemory(
        sum(packed_piece_bytes(spec, kinds[spec.name], shard, config) for spec in specs),
        cache_bytes(config, shard, step.n_slots, context, half_cache),
        buffers_bytes(config, shard, context, step) + vectors_bytes + rope_bytes,
    )


def cache_bytes(config: ModelConfig, shard: Shard, n_slots: int, context: int, half: bool) -> int:
    """Keys and values of whole pages."""
    positions = n_slots * -(-context // PAGE) * PAGE
    return 2 * len(shard.layers) * positions * len(shard.kv_heads) * config.head_width * (2 if half else 4)


def buffers_bytes(config: ModelConfig, shard: Shard, context: int, step: StepSize = USUAL_STEP) -> int:
    """The buffers of a step and its messages, and the logits of those before it whose answers are still looked at."""
    buffers = Buffers(config, shard, step.chunk_rows, step.n_threads, context, _without_memory)
    n_bytes = buffers.n_bytes + _messages_bytes(config, shard, step)
    if shard.has_head:
        n_bytes += _kept_bytes(shard, step) + _answers_bytes(config, shard, step, buffers)
        leads_others = shard.rank == 0 and shard.n_ranks > 1
        n_bytes += _joined_bytes(config, shard, step) if leads_others and step.n_stages > 1 else 0
    return n_bytes


def root_bytes(config: ModelConfig, last: Shard, context: int, step: StepSize = USUAL_STEP) -> int:
    """What the root has besides: the logits of a step, and where those of other stages arrive. `last`: a shard of the
    stage that computes them."""
    joined = _joined_bytes(config, last, step)
    if step.n_stages == 1:
        return joined
    buffers = Buffers(config, last, step.chunk_rows, step.n_threads, context, _without_memory)
    return joined + N_ROOMS * _answer_bytes(config, last, buffers)


def _messages_bytes(config: ModelConfig, shard: Shard, step: StepSize) -> int:
    """Of rows on their way: from a leader to the ranks that share its layers, from stage to stage."""
    row_bytes = 4 * config.width + 8 * WORDS_PER_ROW
    n_rooms = 1 if shard.n_ranks > 1 else 0
    if step.n_stages > 1 and shard.rank == 0:
        n_rooms += N_ROOMS + max(N_ROOMS, steps_in_flight(step.n_stages))
    return n_rooms * step.chunk_rows * row_bytes


def _answers_bytes(config: ModelConfig, shard: Shard, step: StepSize, buffers: Buffers) -> int:
    """At the last leader, on their way to the root."""
    if step.n_stages == 1 or shard.rank:
        return 0
    return (answers_on_their_way(step.n_stages) + 1) * _answer_bytes(config, shard, buffers)


def _answer_bytes(config: ModelConfig, shard: Shard, buffers: Buffers) -> int:
    """Room for one: the candidates of all rows and ranks, or the logits of a row."""
    return 8 * shard.n_ranks * buffers.candidates.size + 4 * config.vocab_size


def _joined_bytes(config: ModelConfig, shard: Shard, step: StepSize) -> int:
    """Logits of all rows of a step, and what a few of them take on their way there."""
    n_rows = step.chunk_rows + (2 * GATHERED_ROWS if shard.n_ranks > 1 else 0)
    return n_rows * config.vocab_size * 4


def _kept_bytes(shard: Shard, step: StepSize) -> int:
    n_rows = min(max(step.n_slots, GUESSED_ROWS), step.chunk_rows)
    return (steps_in_flight(step.n_stages) - 1) * n_rows * (n_groups(len(shard.vocab)) + 1) * GROUP * 4


_T = TypeVar("_T", bound=np.generic)


def _without_memory(shape: int | tuple[int, ...], dtype: type[_T], /) -> NDArray[_T]:
    """An array of this size in which all elements share one place."""
    return np.broadcast_to(np.zeros((), dtype), shape)
