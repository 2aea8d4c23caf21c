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
FEW = 2  # queries; they leave room for four vectors each, which hides the latency of fma (1.5 times as fast)

# Argument words.
N_ROWS, Q, Q_STRIDE, HEAD_WIDTH, KV_HEADS, GROUPS, ROWS, K_CACHE, V_CACHE = range(9)
OUT, OUT_STRIDE, SCRATCH, SCRATCH_STRIDE, SCALE = range(9, 14)

# Scratch of a thread: for each query of a tile its list entries, then its scores.
SCORES, QUERIES, OUTPUTS, LENGTHS, TOTALS = 0, 64, 128, 192, 256


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


@njit(error_model="numpy", inline="always")
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


@njit(error_model="numpy", inline="always")
def attend_tile(
    half: Any, args: int, thread: int, kv_head: int, row: int, n_rows: int, first_head: int, n_heads: int
) -> None:
    """Lists the queries of a tile, then computes their scores, weights and values."""
    lists = argument(args, SCRATCH) + thread * argument(args, SCRATCH_STRIDE)
    width, n, longest = argument(args, HEAD_WIDTH), n_rows * n_heads, 0
    for i in range(n):
        r, head = row + i // n_heads, first_head + i % n_heads
        length = get_i64(argument(args, ROWS) + r * ROW_BYTES + ROW_POSITION) + 1
        longest = max(longest, length)
        set_i64(lists + QUERIES + 8 * i, argument(args, Q) + r * argument(args, Q_STRIDE) + head * width * 4)
        set_i64(lists + OUTPUTS + 8 * i, argument(args, OUT) + r * argument(args, OUT_STRIDE) + head * width * 4)
        set_i64(lists + LENGTHS + 8 * i, length)
    n_pages = (longest + PAGE - 1) // PAGE
    stride = n_pages * PAGE * 4
    for i in range(n):
        set_i64(lists + SCORES + 8 * i, lists + LISTS_BYTES + i * stride)
    table = get_i64(argument(args, ROWS) + row * ROW_BYTES + ROW_TABLE)
    for page in range(n_pages):
        page_head = get_i64(table + 8 * page) * argument(args, KV_HEADS) + kv_head
        at_height(score_page, score_page_of_few, half, args, lists, n, (page_head, page))
    for i in range(n):
        weigh(args, lists, i, n_pages)
    for i in range(0, width, 64 if n <= FEW else 16):
        at_height(sum_values, sum_values_of_few, half, args, lists, n, (table, kv_head, longest, i))
    for i in range(n):
        out = get_i64(lists + OUTPUTS + 8 * i)
        inverse = splat_f32(ONE / get_f32(lists + TOTALS + 4 * i))
        for e in range(0, width * 4, 64):
            store_f32(out + e, mul_f32(load_f32(out + e), inverse))


@njit(error_model="numpy", inline="always")
def at_height(step: Any, step_of_few: Any, half: Any, args: int, lists: int, n: int, place: Any) -> None:
    """A step at the smallest height that holds n queries."""
    if n > 4:
        step(half, rows_zero_f32(constant(8)), args, lists, n, place)
    elif n > FEW:
        step(half, rows_zero_f32(constant(4)), args, lists, n, place)
    elif n > 1:
        step_of_few(half, rows_zero_f32(constant(2)), args, lists, n, place)
    else:
        step_of_few(half, rows_zero_f32(constant(1)), args, lists, n, place)


@njit(error_model="numpy")
def score_page(half: Any, zero: Any, args: int, lists: int, n: int, place: Any) -> None:
    """Products of the queries with the 64 keys of a page. `place`: (page and head in the cache, page in the slot)."""
    page_head, page = place
    keys, width = argument(args, K_CACHE), argument(args, HEAD_WIDTH)
    queries = row_addresses(zero, 0, 1, lists + QUERIES, n - 1)
    scores = row_addresses(zero, 0, 1, lists + SCORES, n - 1)
    for part in range(0, PAGE, 16):
        tile = zero
        for e in range(width):
            tile = rows_fma_at(tile, load_cached(half, keys, (page_head * width + e) * PAGE + part), queries, 4 * e)
        rows_store(scores, (page * PAGE + part) * 4, tile)


@njit(error_model="numpy")
def score_page_of_few(half: Any, zero: Any, args: int, lists: int, n: int, place: Any) -> None:
    """As score_page, all 64 positions side by side."""
    page_head, page = place
    keys, width = argument(args, K_CACHE), argument(args, HEAD_WIDTH)
    queries = row_addresses(zero, 0, 1, lists + QUERIES, n - 1)
    scores = row_addresses(zero, 0, 1, lists + SCORES, n - 1)
    a = b = c = d = zero
    for e in range(width):
        at = (page_head * width + e) * PAGE
        a = rows_fma_at(a, load_cached(half, keys, at), queries, 4 * e)
        b = rows_fma_at(b, load_cached(half, keys, at + 16), queries, 4 * e)
        c = rows_fma_at(c, load_cached(half, keys, at + 32), queries, 4 * e)
        d = rows_fma_at(d, load_cached(half, keys, at + 48), queries, 4 * e)
    rows_store(scores, page * PAGE * 4, a)
    rows_store(scores, page * PAGE * 4 + 64, b)
    rows_store(scores, page * PAGE * 4 + 128, c)
    rows_store(scores, page * PAGE * 4 + 192, d)


@njit(error_model="numpy")
def sum_values(half: Any, zero: Any, args: int, lists: int, n: int, place: Any) -> None:
    """16 elements of all weighted values. `place`: (page table, KV head, positions, first element)."""
    table, kv_head, longest, i = place
    values, width = argument(args, V_CACHE), argument(args, HEAD_WIDTH)
    weights = row_addresses(zero, 0, 1, lists + SCORES, n - 1)
    total = zero
    for page in range((longest + PAGE - 1) // PAGE):
        first = (get_i64(table + 8 * page) * argument(args, KV_HEADS) + kv_head) * PAGE
        tile = zero
        for j in range(min(PAGE, longest - page * PAGE)):
            v = load_cached(half, values, (first + j) * width + i)
            tile = rows_fma_at(tile, v, weights, (page * PAGE + j) * 4)
        total = rows_add_f32(total, tile)
    rows_store(row_addresses(zero, 0, 1, lists + OUTPUTS, n - 1), 4 * i, total)


@njit(error_model="numpy")
def sum_values_of_few(half: Any, zero: Any, args: int, lists: int, n: int, place: Any) -> None:
    """As sum_values for 64 elements side by side; where the head ends sooner, its last 16 are repeated."""
    table, kv_head, longest, i = place
    values, width = argument(args, V_CACHE), argument(args, HEAD_WIDTH)
    weights = row_addresses(zero, 0, 1, lists + SCORES, n - 1)
    i1, i2, i3 = min(i + 16, width - 16), min(i + 32, width - 16), min(i + 48, width - 16)
    total = total1 = total2 = total3 = zero
    for page in range((longest + PAGE - 1) // PAGE):
        first = (get_i64(table + 8 * page) * argument(args, KV_HEADS) + kv_head) * PAGE
        a = b = c = d = zero
        for j in range(min(PAGE, longest - page * PAGE)):
            at, weight = (first + j) * width, (page * PAGE + j) * 4
            a = rows_fma_at(a, load_cached(half, values, at + i), weights, weight)
            b = rows_fma_at(b, load_cached(half, values, at + i1), weights, weight)
            c = rows_fma_at(c, load_cached(half, values, at + i2), weights, weight)
            d = rows_fma_at(d, load_cached(half, values, at + i3), weights, weight)
        total, total1 = rows_add_f32(total, a), rows_add_f32(total1, b)
        total2, total3 = rows_add_f32(total2, c), rows_add_f32(total3, d)
    out = row_addresses(zero, 0, 1, lists + OUTPUTS, n - 1)
    rows_store(out, 4 * i, total)
    rows_store(out, 4 * i1, total1)
    rows_store(out, 4 * i2, total2)
    rows_store(out, 4 * i3, total3)


@njit(forceinline=True)
def load_cached(half: Any, cache: int, element: int) -> Any:
    """16 elements of the cache, widened."""
    if number_of(half):
        return load_f16(cache + 2 * element)
    return load_f32(cache + 4 * element)


@njit(error_model="numpy")
def weigh(args: int, lists: int, i: int, n_pages: int) -> None:
    """Scores of query i become exp(score * scale - max), 0 beyond its length; their sum goes to its total."""
    scores, length = get_i64(lists + SCORES + 8 * i), get_i64(lists + LENGTHS + 8 * i)
    scale = get_f32(argument(args, SCALE))
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
    set_f32(lists + TOTALS + 4 * i, total)
