"""Who owns what: a pure function of the model's sizes and the number of ranks, the same on every rank.

Sums that cross ranks run over P fixed leaves (docs/arithmetic.md); a rank of N owns P/N consecutive ones and
everything that follows from them: query heads, the KV heads these read, feed-forward columns, and its part of the
vocabulary. Shares may be uneven, the leaves never move.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dllama_py.blocks import BLOCK
from dllama_py.config import ModelConfig
from dllama_py.errors import UsageError

MIN_LEAVES = 8
WAYS_OUT = (
    "put two ranks on the strongest host, or take --topology pipeline, for which any number up to the layers will do"
)


@dataclass(frozen=True, slots=True)
class Shard:
    """One rank's part. Leaf borders count 32-column blocks of this rank's own columns, from 0.

    `rank` of `n_ranks`: among those that share these layers, which are consecutive; `has_head`: the last ones are among
    them.
    """

    rank: int
    n_ranks: int
    heads: range
    kv_heads: range
    hidden: range  # feed-forward columns, of every expert
    vocab: range
    head_leaves: tuple[int, ...]
    hidden_leaves: tuple[int, ...]
    shared: range  # feed-forward columns of the expert that every token uses
    shared_leaves: tuple[int, ...]
    layers: range
    has_head: bool

    @property
    def n_leaves(self) -> int:
        return len(self.head_leaves) - 1

    def vocab_shares(self, config: ModelConfig) -> tuple[int, ...]:
        """Borders of this rank's shares of the vocabulary, from 0. P shares in all, whatever the number of ranks."""
        first, total = self.rank * self.n_leaves, self.n_ranks * self.n_leaves
        borders = range(first, first + self.n_leaves + 1)
        return tuple(config.vocab_size * border // total - self.vocab.start for border in borders)

    def head_groups(self, config: ModelConfig) -> tuple[int, ...]:
        """Borders of the local query heads that read each local KV head, from 0: one more than KV heads."""
        group = config.n_heads // config.n_kv_heads
        borders = [min(max(kv * group, self.heads.start), self.heads.stop) for kv in self.kv_heads]
        return tuple(border - self.heads.start for border in [*borders, self.heads.stop])


def n_leaves(config: ModelConfig) -> int:
    """P: max(8, the smallest power of two not below the KV head count)."""
    return max(MIN_LEAVES, _power_of_two(config.n_kv_heads))


def rank_counts(config: ModelConfig, replicate_kv: bool) -> list[int]:
    """The numbers of ranks that can share the model."""
    if _unit_heads(config) is None:
        return [1]
    limit = n_leaves(config) if replicate_kv else _power_of_two(config.n_kv_heads)
    return [1 << power for power in range(limit.bit_length())]


def make_plan(config: ModelConfig, n_ranks: int, replicate_kv: bool = False) -> list[Shard]:
    """The shards of ranks that share all layers. UsageError when the model cannot be shared so; reads no weights."""
    _check_blocks(config)
    _check_count(config, n_ranks, replicate_kv)
    return [_shard(config, rank, n_ranks) for rank in range(n_ranks)]


def _check_blocks(config: ModelConfig) -> None:
    columns_of = {
        "q, k, v, gate and up": config.width,
        "o": config.q_width,
        "down": config.hidden_width,
        "the shared expert's down": config.shared_width,
    }
    for role, columns in columns_of.items():
        if columns % BLOCK:
            raise UsageError(
                f"rows of {role} are {columns} columns, {columns / BLOCK:g} blocks of {BLOCK}; "
                "expected whole blocks: this model cannot be computed"
            )
    if config.head_width % 16:
        raise UsageError(f"heads are {config.head_width} wide; expected a multiple of 16: this model is not supported")
    if config.n_heads % config.n_kv_heads:
        raise UsageError(
            f"{config.n_heads} query heads do not divide among {config.n_kv_heads} KV heads; "
            "expected a whole number for each: the model's configuration is damaged"
        )


def _check_count(config: ModelConfig, n_ranks: int, replicate_kv: bool) -> None:
    counts = rank_counts(config, replicate_kv)
    if n_ranks in counts:
        return
    if counts == [1]:
        group = config.n_heads // config.n_kv_heads
        raise UsageError(
            f"{n_ranks} ranks cannot share o: each KV head has {group * config.head_width} columns of query heads "
            f"({group}), not whole blocks of {BLOCK}; this model runs on 1 rank ({WAYS_OUT})"
        )
    more = rank_counts(config, True)
    wider = f", up to {more[-1]} with --replicate-kv" if not replicate_kv and len(more) > len(counts) else ""
    raise UsageError(
        f"{n_ranks} ranks cannot share {config.n_kv_heads} KV heads; use {_listed(counts)} ranks{wider} ({WAYS_OUT})"
    )


def _shard(config: ModelConfig, rank: int, n_ranks: int) -> Shard:
    leaves = n_leaves(config)
    own = range(leaves * rank // n_ranks, leaves * (rank + 1) // n_ranks)
    unit = _unit_heads(config) or config.n_heads
    unit_blocks = unit * config.head_width // BLOCK
    head_units = _borders(config.n_heads // unit, leaves)[own.start : own.stop + 1]
    hidden_blocks = _borders(config.hidden_width // BLOCK, leaves)[own.start : own.stop + 1]
    shared_blocks = _borders(config.shared_width // BLOCK, leaves)[own.start : own.stop + 1]
    heads = range(head_units[0] * unit, head_units[-1] * unit)
    group = config.n_heads // config.n_kv_heads
    return Shard(
        rank,
        n_ranks,
        heads,
        range(heads.start // group, -(-heads.stop // group)) if heads else range(0),
        range(hidden_blocks[0] * BLOCK, hidden_blocks[-1] * BLOCK),
        range(config.vocab_size * rank // n_ranks, config.vocab_size * (rank + 1) // n_ranks),
        tuple((border - head_units[0]) * unit_blocks for border in head_units),
        tuple(border - hidden_blocks[0] for border in hidden_blocks),
        range(shared_blocks[0] * BLOCK, shared_blocks[-1] * BLOCK),
        tuple(border - shared_blocks[0] for border in shared_blocks),
        range(config.n_layers),
        has_head=True,
    )


def _unit_heads(config: ModelConfig) -> int | None:
    """Query heads of a unit: the smallest run within a KV group that is whole blocks; None if none tiles the group."""
    group = config.n_heads // config.n_kv_heads
    run = BLOCK // math.gcd(BLOCK, config.head_width)
    return run if group % run == 0 else None


def _borders(n_units: int, n_parts: int) -> list[int]:
    return [part * n_units // n_parts for part in range(n_parts + 1)]


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _listed(counts: Sequence[int]) -> str:
    *first, last = map(str, counts)
    return f"{', '.join(first)} or {last}" if first else last
