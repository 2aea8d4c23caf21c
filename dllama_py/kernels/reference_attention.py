"""Attention as docs/arithmetic.md has it, one float at a time over plain arrays (reference.py has the rest)."""

from typing import Any

import numpy as np

from dllama_py.float_types import Floats
from dllama_py.kernels.functions import kept_njit
from dllama_py.kernels.reference import exp_of, halving_sum
from dllama_py.kernels.vectors import fma

_ZERO, _ONE = np.float32(0), np.float32(1)
_PAGE = 64  # positions that are summed before they are added to the totals


def attention(
    q: Floats, k: Floats, v: Floats, scale: Any = None, window: int | None = None, sinks: Floats | None = None
) -> Floats:
    """One row: q float32 [H, E]; k, v [S, K, E] of positions 0 to the row's own, as the cache holds them -> [H, E].

    `scale`: of scores, 1 / sqrt(E) where it is None; `window`: how many positions the row sees; `sinks`: float32 [H].
    """
    out = np.empty_like(q)
    first = max(len(k) - window, 0) if window else 0
    for head in range(q.shape[0]):
        kv_head = head // (q.shape[0] // k.shape[1])
        keys, values = np.ascontiguousarray(k[:, kv_head]), np.ascontiguousarray(v[:, kv_head])
        sink = -np.inf if sinks is None else sinks[head]
        factor = attention_scale(q.shape[1]) if scale is None else scale
        out[head] = _attend(q[head], keys, values, factor, first, np.float32(sink))
    return out


def attention_scale(head_width: int) -> Any:
    """1 / sqrt(E), both operations in float32, a float32."""
    return _ONE / np.sqrt(np.float32(head_width))


@kept_njit
def _attend(q: Any, k: Any, v: Any, scale: Any, first_seen: int, sink: Any) -> Any:
    n_positions, width = k.shape
    scores = np.zeros(n_positions, np.float32)
    for j in range(n_positions):
        for e in range(width):
            scores[j] = fma(q[e], k[j, e], scores[j])
        scores[j] = scores[j] * scale
    highest = max(scores[first_seen:].max(), sink)
    total, values = _ZERO, np.zeros(width, np.float32)
    for first in range(0, n_positions, _PAGE):
        lanes, tile = np.zeros(16, np.float32), np.zeros(width, np.float32)
        for j in range(first, min(first + _PAGE, n_positions)):
            weight = exp_of(scores[j] - highest) if j >= first_seen else _ZERO
            lanes[j % 16] = lanes[j % 16] + weight
            for e in range(width):
                tile[e] = fma(weight, v[j, e], tile[e])
        total = total + halving_sum(lanes)
        for e in range(width):
            values[e] = values[e] + tile[e]
    if sink > -np.inf:
        total = total + exp_of(sink - highest)
    for e in range(width):
        values[e] = values[e] * (_ONE / total)
    return values
