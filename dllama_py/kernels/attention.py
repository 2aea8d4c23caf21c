"""Attention over the paged cache with grouped heads (docs/arithmetic.md, "Attention").

A tile holds queries that read the same keys: the query heads of one KV head, for one or several rows of one slot.
Scores of all positions are computed first, then their maximum, then pages are weighted and added in order. A row
that sees fewer positions than its neighbours in the tile gives the surplus the weight 0, which adds nothing.
"""

from functools import cache
from typing import Any

import numpy as np
from numba import njit

from dllama_py.kernels.constants import constant, number_of
from dllama_py.kernels.elementary import ONE, exp
from dllama_py.kernels.heads import ROW_BYTES, ROW_POSITION, ROW_TABLE
from dllama_py.kernels.layout import LISTS_BYTES, PAGE, TILE
from dllama_py.kernels.program import Kernel, argument
from dllama_py.kernels.tiles import (
    row_addresses,
    rows_add_f32,
    rows_fma_at,
    rows_store,
    rows_zero_f32,
    rows_zero_like,
)
from dllama_py.kernels.vectors import (
    add_f32,
    first_lanes,
    get_f32,
    get_i64,
    load_f16,
    load_f32,
    max_f32,
    max_lanes,
    mul_f32,
    set_f32,
    set_i64,
    splat_f32,
    store_f32,
    sub_f32,
    sum_lanes,
    zero_f32,
)

LOWEST = np.float32(-3.4028235e38)

# Argument words.
N_ROWS, Q, Q_STRIDE, HEAD_WIDTH, KV_HEADS, GROUPS, ROWS, K_CACHE, V_CACHE = range(9)
OUT, OUT_STRIDE, SCRATCH, SCRATCH_STRIDE, SCALE = range(9, 14)

# Scratch of a thread: for each query of a tile its list entries, then its scores.
IDENTITY, QUERIES, LENGTHS, TOTALS = 0, 128, 256, 384


@cache
def attention(half_cache: bool) -> Kernel:
    """out[row, head] = softmax(q k / sqrt(E)) v over positions 0..position of the row.

    Words: N_ROWS (address); Q float32 with stride; HEAD_WIDTH; KV_HEADS here; GROUPS int64 [KV_HEADS + 1] borders of
    the query heads of each KV head; ROWS (position, table) pairs; K_CACHE, V_CACHE of the layer; OUT float32 with
    stride; SCRATCH, bytes a thread; SCALE (address of a float).
    """
    half = int(half_cache)

    def attend(args: int, thread: int, threads: int) -> None:
        walk_queries(constant(half), args, thread, threads)

    return Kernel(attend, f"attention_{half}")


@njit(error_model="numpy")
def walk_queries(half: Any, args: int, thread: int, threads: int) -> None:
    """Items are (KV head, row); rows of one slot that follow each other share a tile while it has room."""
    n_rows = get_i64(argument(args, N_ROWS))
    n_items = n_rows * argument(args, KV_HEADS)
    item, end = n_items * thread // threads, n_items * (thread + 1) // threads
    while item < end:
        kv_head, row = item // n_rows, item % n_rows
        first_head = get_i64(argument(args, GROUPS) + 8 * kv_head)
        n_heads = get_i64(argument(args, GROUPS) + 8 * kv_head + 8) - first_head
        n_together = rows_together(args, row, min(end - item, n_rows - row), max(TILE // max(n_heads, 1), 1))
        for head in range(first_head, first_head + n_heads, TILE):
            n = min(TILE, first_head + n_heads - head)
            attend_tile(half, args, thread, kv_head, row, n_together, head, n)
        item += n_together


@njit(error_model="numpy")
def rows_together(args: int, row: int, available: int, room: int) -> int:
    """How many rows from `row` on are of its slot, within the room of a tile."""
    table = get_i64(argument(args, ROWS) + row * ROW_BYTES + ROW_TABLE)
    n = 1
    while n < min(available, room) and get_i64(argument(args, ROWS) + (row + n) * ROW_BYTES + ROW_TABLE) == table:
        n += 1
    return n


@njit(error_model="numpy")
def attend_tile(
    half: Any, args: int, thread: int, kv_head: int, row: int, n_rows: int, first_head: int, n_heads: int
) -> None:
    """Lists the queries of a tile, then computes it at the smallest height that holds them."""
    lists = argument(args, SCRATCH) + thread * argument(args, SCRATCH_STRIDE)
    width = argument(args, HEAD_WIDTH)
    longest = 0
    for i in range(n_rows * n_heads):
        r, head = row + i // n_heads, first_head + i % n_heads
        length = get_i64(argument(args, ROWS) + r * ROW_BYTES + ROW_POSITION) + 1
        longest = max(longest, length)
        set_i64(lists + IDENTITY + 8 * i, i)
        set_i64(lists + QUERIES + 8 * i, r * argument(args, Q_STRIDE) + head * width * 4)
        set_i64(lists + LENGTHS + 8 * i, length)
    n = n_rows * n_heads
    if n > 4:
        compute_tile(half, rows_zero_f32(constant(8)), args, lists, kv_head, row, n, longest)
    elif n > 2:
        compute_tile(half, rows_zero_f32(constant(4)), args, lists, kv_head, row, n, longest)
    elif n > 1:
        compute_tile(half, rows_zero_f32(constant(2)), args, lists, kv_head, row, n, longest)
    else:
        compute_tile(half, rows_zero_f32(constant(1)), args, lists, kv_head, row, n, longest)


@njit(error_model="numpy")
def compute_tile(half: Any, zero: Any, args: int, lists: int, kv_head: int, row: int, n: int, longest: int) -> None:
    """Scores, weights and values of the listed queries. `longest`: positions that the furthest of them sees."""
    width, kv_heads = argument(args, HEAD_WIDTH), argument(args, KV_HEADS)
    table = get_i64(argument(args, ROWS) + row * ROW_BYTES + ROW_TABLE)
    n_pages = (longest + PAGE - 1) // PAGE
    stride = n_pages * PAGE * 4
    scores = lists + LISTS_BYTES
    queries = row_addresses(zero, argument(args, Q), 1, lists + QUERIES, n - 1)
    score_rows = row_addresses(zero, scores, stride, lists + IDENTITY, n - 1)
    for page in range(n_pages):
        at = get_i64(table + 8 * page) * kv_heads + kv_head
        for part in range(0, PAGE, 16):
            tile = zero
            for e in range(width):
                tile = rows_fma_at(
                    tile, load_cached(half, argument(args, K_CACHE), (at * width + e) * PAGE + part), queries, 4 * e
                )
            rows_store(score_rows, (page * PAGE + part) * 4, tile)
    for i in range(n):
        weigh(
            scores + i * stride,
            get_i64(lists + LENGTHS + 8 * i),
            n_pages,
            get_f32(argument(args, SCALE)),
            lists + TOTALS + 4 * i,
        )
    outputs = row_addresses(zero, argument(args, OUT), 1, lists + QUERIES, n - 1)
    for i in range(0, width, 16):
        total = rows_zero_like(zero)
        for page in range(n_pages):
            at = get_i64(table + 8 * page) * kv_heads + kv_head
            tile = zero
            for j in range(min(PAGE, longest - page * PAGE)):
                v = load_cached(half, argument(args, V_CACHE), (at * PAGE + j) * width + i)
                tile = rows_fma_at(tile, v, score_rows, (page * PAGE + j) * 4)
            total = rows_add_f32(total, tile)
        rows_store(outputs, 4 * i, total)
    for i in range(n):
        inverse = ONE / get_f32(lists + TOTALS + 4 * i)
        out = argument(args, OUT) + get_i64(lists + QUERIES + 8 * i)
        for e in range(0, width * 4, 64):
            store_f32(out + e, mul_f32(load_f32(out + e), splat_f32(inverse)))


@njit(forceinline=True)
def load_cached(half: Any, cache: int, element: int) -> Any:
    """16 elements of the cache, widened."""
    if number_of(half):
        return load_f16(cache + 2 * element)
    return load_f32(cache + 4 * element)


@njit(error_model="numpy")
def weigh(scores: int, length: int, n_pages: int, scale: float, total_at: int) -> None:
    """Scores of one query become exp(score * scale - max), 0 from `length` on; their sum goes to `total_at`."""
    best = splat_f32(LOWEST)
    for position in range(0, n_pages * PAGE, 16):
        v = mul_f32(load_f32(scores + 4 * position), splat_f32(scale))
        v = first_lanes(v, length - position, splat_f32(LOWEST))
        store_f32(scores + 4 * position, v)
        best = max_f32(best, v)
    highest = splat_f32(max_lanes(best))
    total = np.float32(0)
    for page in range(n_pages):
        tile = zero_f32()
        for position in range(page * PAGE, page * PAGE + PAGE, 16):
            v = exp(sub_f32(load_f32(scores + 4 * position), highest))
            v = first_lanes(v, length - position, zero_f32())
            store_f32(scores + 4 * position, v)
            tile = add_f32(tile, v)
        total += sum_lanes(tile)
    set_f32(total_at, total)
