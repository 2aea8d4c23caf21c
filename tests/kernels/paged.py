"""A cache in pages, as the kernels keep it, made from plain histories."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dllama_py.blocks import Floats
from dllama_py.kernels import attention
from dllama_py.kernels.heads import prepare_heads
from dllama_py.kernels.layout import PAGE, RUN, scratch_bytes
from dllama_py.kernels.reference_attention import attention_scale
from dllama_py.kernels.team import Team
from tests.kernels import drive

Row = tuple[int, int]  # slot, position


@dataclass(frozen=True, slots=True)
class PagedCache:
    """Keys [pages, K, 4, E, 16] and values [pages, K, 64, E] of one layer, halves as uint16; a page table per slot."""

    keys: NDArray[np.generic]
    values: NDArray[np.generic]
    tables: tuple[NDArray[np.int64], ...]

    @classmethod
    def empty(cls, tables: Sequence[Sequence[int]], kv_heads: int, width: int, half: bool) -> "PagedCache":
        """NaN wherever nothing is stored, in all bits 1."""
        n_pages = 1 + max(max(table) for table in tables)
        kind = np.uint16 if half else np.uint32
        kind_read = np.float16 if half else np.float32
        keys = np.full((n_pages, kv_heads, PAGE // RUN, width, RUN), np.iinfo(kind).max, kind).view(kind_read)
        values = np.full((n_pages, kv_heads, PAGE, width), np.iinfo(kind).max, kind).view(kind_read)
        return cls(keys, values, tuple(drive.words(*table) for table in tables))

    def fill(self, slot: int, k: Floats, v: Floats) -> None:
        """k, v float32 [S, K, E], already of the cache's type: positions 0 to S - 1 of a slot."""
        for position in range(len(k)):
            page, offset = self.tables[slot][position // PAGE], position % PAGE
            self.keys[page, :, offset // RUN, :, offset % RUN] = k[position]
            self.values[page, :, offset] = v[position]

    def stored(self, slot: int, position: int) -> tuple[Floats, Floats]:
        """-> key and value float32 [K, E]."""
        page, offset = self.tables[slot][position // PAGE], position % PAGE
        return self.keys[page, :, offset // RUN, :, offset % RUN].astype(np.float32), self.values[
            page, :, offset
        ].astype(np.float32)

    @property
    def keys_by_element(self) -> NDArray[np.generic]:
        """[pages, K, E, 64], however the kernels lay them out."""
        return np.ascontiguousarray(self.keys.swapaxes(2, 3)).reshape(*self.keys.shape[:2], -1, PAGE)

    @property
    def is_half(self) -> bool:
        return self.keys.dtype == np.float16

    def rows(self, rows: Sequence[Row]) -> NDArray[np.int64]:
        """The kernels' ROWS, flat; behind them lie copies of the page tables that they point to."""
        words = np.concatenate([np.zeros(2 * len(rows), np.int64), *self.tables])
        starts = words.ctypes.data + 8 * np.cumsum([2 * len(rows), *(table.size for table in self.tables)])
        words[: 2 * len(rows)] = [word for slot, position in rows for word in (position, starts[slot])]
        return words


@dataclass(frozen=True, slots=True)
class Sight:
    """`window`: positions that a row sees, 0: all; `sinks`: float32 [H]; `scale`: 1 / sqrt(E) where none is given."""

    window: int = 0
    sinks: Floats | None = None
    scale: np.float32 | None = None


PLAIN = Sight()


def attend(
    team: Team, cache: PagedCache, q: Floats, rows: Sequence[Row], groups: Sequence[int], sight: Sight = PLAIN
) -> Floats:
    """q float32 [T, H, E] of the rows -> [T, H, E]; groups [K + 1] are the borders of each KV head's query heads."""
    out = drive.untouched(len(q), q.shape[1] + 1, q.shape[2])[:, :-1]  # another stride than that of q
    width, kv_heads = q.shape[2], len(groups) - 1
    n_bytes = scratch_bytes(1 + max(position for _, position in rows))
    scratch = np.full(team.n_threads * n_bytes, 0xFF, np.uint8)
    scale = np.array([attention_scale(width) if sight.scale is None else sight.scale], np.float32)
    call = attention.attention(cache.is_half)(
        n_rows=drive.words(len(rows)),
        q=q,
        q_stride=q.strides[0],
        head_width=width,
        kv_heads=kv_heads,
        head_groups=drive.words(*groups),
        rows=cache.rows(rows),
        k_cache=cache.keys,
        v_cache=cache.values,
        out=out,
        out_stride=out.strides[0],
        scratch=scratch,
        scratch_stride=n_bytes,
        scale=scale,
        window=sight.window,
        sinks=0 if sight.sinks is None else sight.sinks,
    )
    drive.run(team, call)
    return np.ascontiguousarray(out)


@dataclass(frozen=True, slots=True)
class Heads:
    """What the projections give for a step: q float32 [T, H, E]; k, v [T, K, E]; norm weights [E] or None."""

    q: Floats
    k: Floats
    v: Floats
    q_norm: Floats | None
    k_norm: Floats | None


def prepare(
    team: Team, cache: PagedCache, heads: Heads, rows: Sequence[Row], turns: tuple[Floats, Floats], adjacent: bool
) -> Floats:
    """Stores keys and values; -> query heads float32 [T, H, E]. turns: cos and sin [positions, E/2]."""
    q, k, v = heads.q.copy(), heads.k.copy(), heads.v.copy()
    call = prepare_heads(cache.is_half, adjacent)(
        n_rows=drive.words(len(rows)),
        q=q,
        k=k,
        v=v,
        q_stride=q.strides[0],
        kv_stride=k.strides[0],
        q_heads=q.shape[1],
        kv_heads=k.shape[1],
        head_width=q.shape[2],
        q_norm=0 if heads.q_norm is None else heads.q_norm,
        k_norm=0 if heads.k_norm is None else heads.k_norm,
        epsilon=np.array([1e-6], np.float32),
        cos=turns[0],
        sin=turns[1],
        rows=cache.rows(rows),
        k_cache=cache.keys,
        v_cache=cache.values,
    )
    drive.run(team, call)
    return q
