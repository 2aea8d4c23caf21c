"""The steps of attention for one tile of queries: scores of a page, weights of a query, values of a head.

A step is compiled for each height of a tile and for both types of the cache (`half`, a Constant). Those "of few"
are for one or two queries: these leave room for four vectors each, which hides the latency of fma.
"""

from typing import Any, NamedTuple

import numpy as np

from dllama_py.kernels.constants import number_of
from dllama_py.kernels.elementary import LOWEST, ONE, exp
from dllama_py.kernels.layout import PAGE, RUN
from dllama_py.kernels.program import argument
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.tiles import row_addresses, rows_add_f32, rows_fma_at, rows_store
from dllama_py.kernels.vectors import (
    add_f32,
    get_f32,
    get_i64,
    lanes_between,
    load_f16,
    load_f32,
    max_f32,
    max_lanes,
    mul_f32,
    prefetch_line,
    set_f32,
    splat_f32,
    store_f32,
    sub_f32,
    sum_lanes,
    zero_f32,
)
from dllama_py.kernels.words import Words

# Scratch of a thread: for each query of a tile its list entries, then its scores.
SCORES, QUERIES, OUTPUTS, LENGTHS, TOTALS = 0, 64, 128, 192, 256


class Attention(Words):
    """H, K: query and KV heads of this rank."""

    N_ROWS = "int64 [1], rows of the step"
    Q = "float32 [n_rows, H, E]"
    Q_STRIDE = "bytes from row to row"
    HEAD_WIDTH = "E"
    KV_HEADS = "K"
    HEAD_GROUPS = "int64 [K + 1], borders of the query heads of each KV head"
    ROWS = "int64 [n_rows, 2], position of each row and address of its slot's page table"
    K_CACHE = "keys of the layer, float16 or float32 [pages, K, 4, E, 16]"
    V_CACHE = "values of the layer, float16 or float32 [pages, K, 64, E]"
    OUT = "float32 [n_rows, H, E]"
    OUT_STRIDE = "bytes from row to row"
    SCRATCH = "uint8 [threads, scratch_bytes(context)]"
    SCRATCH_STRIDE = "bytes a thread"
    SCALE = "float32 [1], what scores are multiplied by"
    WINDOW = "positions that a row sees at most, its own included; left out: all"
    SINKS = "float32 [H], a score of each query head that has no value, or left out"


class Queries(NamedTuple):
    """The queries of a tile: where the thread's scratch lists them and how many.

    The pages that they see begin with `first_page`; positions end with those of the longest.
    """

    lists: int
    n: int
    first_page: int
    longest: int


@njit(forceinline=True)
def listed(zero: Any, queries: Queries, addresses: int) -> Any:
    """A tile of the addresses in one of the lists."""
    return row_addresses(zero, 0, 1, queries.lists + addresses, queries.n - 1)


@njit(forceinline=True)
def load_keys(half: Any, args: int, page_head: int, e: int, first: int) -> Any:
    """Element e of 16 keys of a page, from position `first` of the page on, a multiple of 16."""
    keys, width = argument(args, Attention.K_CACHE), argument(args, Attention.HEAD_WIDTH)
    return load_cached(half, keys, (page_head * PAGE + first) * width + e * RUN)


@njit(forceinline=True)
def load_values(half: Any, args: int, page_head: int, j: int, element: int) -> Any:
    """16 elements of the value at position j of a page, from `element` on."""
    values, width = argument(args, Attention.V_CACHE), argument(args, Attention.HEAD_WIDTH)
    return load_cached(half, values, (page_head * PAGE + j) * width + element)


@njit(forceinline=True)
def prefetch_values(half: Any, args: int, page_head: int, e: int, n_seen: int) -> None:
    """Asks for part e of E of the page's first values, which are wanted once the scores are known."""
    width, n_bytes = argument(args, Attention.HEAD_WIDTH), 2 if number_of(half) else 4
    at = argument(args, Attention.V_CACHE) + page_head * PAGE * width * n_bytes
    for line in range(e * PAGE * n_bytes, min((e + 1) * PAGE, n_seen * width) * n_bytes, 64):
        prefetch_line(at + line)


@njit(error_model="numpy")
def score_page(half: Any, zero: Any, args: int, queries: Queries, place: Any) -> None:
    """Products of the queries with the 64 keys of a page. `place`: (page and head in the cache, page in the slot)."""
    page_head, page = place
    q, scores = listed(zero, queries, QUERIES), listed(zero, queries, SCORES)
    for first in range(0, PAGE, RUN):
        tile = zero
        for e in range(argument(args, Attention.HEAD_WIDTH)):
            tile = rows_fma_at(tile, load_keys(half, args, page_head, e, first), q, 4 * e)
        rows_store(scores, (page * PAGE + first) * 4, tile)


@njit(error_model="numpy")
def score_page_of_few(half: Any, zero: Any, args: int, queries: Queries, place: Any) -> None:
    """As score_page, 64 positions side by side. Few products hide no waiting for memory, so values are asked for.

    Of a page's end that nobody sees no memory is read: the last keys that are seen stand in for it.
    """
    page_head, page = place
    q, scores = listed(zero, queries, QUERIES), listed(zero, queries, SCORES)
    n_seen = min(PAGE, queries.longest - page * PAGE)
    last = (n_seen - 1) // RUN * RUN
    first1, first2, first3 = min(16, last), min(32, last), min(48, last)
    a = b = c = d = zero
    for e in range(argument(args, Attention.HEAD_WIDTH)):
        prefetch_values(half, args, page_head, e, n_seen)
        a = rows_fma_at(a, load_keys(half, args, page_head, e, 0), q, 4 * e)
        b = rows_fma_at(b, load_keys(half, args, page_head, e, first1), q, 4 * e)
        c = rows_fma_at(c, load_keys(half, args, page_head, e, first2), q, 4 * e)
        d = rows_fma_at(d, load_keys(half, args, page_head, e, first3), q, 4 * e)
    rows_store(scores, page * PAGE * 4, a)
    rows_store(scores, page * PAGE * 4 + 64, b)
    rows_store(scores, page * PAGE * 4 + 128, c)
    rows_store(scores, page * PAGE * 4 + 192, d)


@njit(error_model="numpy")
def sum_values(half: Any, zero: Any, args: int, queries: Queries, place: Any) -> None:
    """16 elements of all weighted values. `place`: (page table, KV head, first element)."""
    table, kv_head, i = place
    weights, total = listed(zero, queries, SCORES), zero
    for page in range(queries.first_page, (queries.longest + PAGE - 1) // PAGE):
        page_head = get_i64(table + 8 * page) * argument(args, Attention.KV_HEADS) + kv_head
        tile = zero
        for j in range(min(PAGE, queries.longest - page * PAGE)):
            tile = rows_fma_at(tile, load_values(half, args, page_head, j, i), weights, (page * PAGE + j) * 4)
        total = rows_add_f32(total, tile)
    rows_store(listed(zero, queries, OUTPUTS), 4 * i, total)


@njit(error_model="numpy")
def sum_values_of_few(half: Any, zero: Any, args: int, queries: Queries, place: Any) -> None:
    """As sum_values for 64 elements side by side; where the head ends sooner, its last 16 are repeated."""
    table, kv_head, i = place
    weights, last = listed(zero, queries, SCORES), argument(args, Attention.HEAD_WIDTH) - 16
    i1, i2, i3 = min(i + 16, last), min(i + 32, last), min(i + 48, last)
    total = total1 = total2 = total3 = zero
    for page in range(queries.first_page, (queries.longest + PAGE - 1) // PAGE):
        page_head = get_i64(table + 8 * page) * argument(args, Attention.KV_HEADS) + kv_head
        a = b = c = d = zero
        for j in range(min(PAGE, queries.longest - page * PAGE)):
            weight = (page * PAGE + j) * 4
            a = rows_fma_at(a, load_values(half, args, page_head, j, i), weights, weight)
            b = rows_fma_at(b, load_values(half, args, page_head, j, i1), weights, weight)
            c = rows_fma_at(c, load_values(half, args, page_head, j, i2), weights, weight)
            d = rows_fma_at(d, load_values(half, args, page_head, j, i3), weights, weight)
        total, total1 = rows_add_f32(total, a), rows_add_f32(total1, b)
        total2, total3 = rows_add_f32(total2, c), rows_add_f32(total3, d)
    out = listed(zero, queries, OUTPUTS)
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


@njit(forceinline=True)
def first_seen(args: int, length: int) -> int:
    """The first position that a row of so many positions sees."""
    window = argument(args, Attention.WINDOW)
    return max(length - window, 0) if window != 0 else 0


@njit(error_model="numpy")
def weigh(args: int, queries: Queries, i: int, head: int) -> None:
    """Scores of query i become exp(score * scale - max), 0 where it sees nothing; their sum goes to its total."""
    scores, length = get_i64(queries.lists + SCORES + 8 * i), get_i64(queries.lists + LENGTHS + 8 * i)
    first, n_pages = first_seen(args, length), (queries.longest + PAGE - 1) // PAGE
    scale, best = splat_f32(get_f32(argument(args, Attention.SCALE))), splat_f32(LOWEST)
    for position in range(queries.first_page * PAGE, n_pages * PAGE, 16):
        v = mul_f32(load_f32(scores + 4 * position), scale)
        v = lanes_between(v, first - position, length - position, splat_f32(LOWEST))
        store_f32(scores + 4 * position, v)
        best = max_f32(best, v)
    sinks, sink, highest = argument(args, Attention.SINKS), LOWEST, max_lanes(best)
    if sinks != 0:
        sink = get_f32(sinks + 4 * head)
        highest = max(highest, sink)
    total = np.float32(0)
    for page in range(queries.first_page, n_pages):
        tile = zero_f32()
        for position in range(page * PAGE, page * PAGE + PAGE, 16):
            v = exp(sub_f32(load_f32(scores + 4 * position), splat_f32(highest)))
            v = lanes_between(v, first - position, length - position, zero_f32())
            store_f32(scores + 4 * position, v)
            tile = add_f32(tile, v)
        total += sum_lanes(tile)
    if sinks != 0:
        total += max_lanes(exp(splat_f32(sink - highest)))
    set_f32(queries.lists + TOTALS + 4 * i, total)


@njit(error_model="numpy")
def divide(args: int, lists: int, i: int) -> None:
    """The summed values of query i times 1 / (sum of its weights)."""
    out = get_i64(lists + OUTPUTS + 8 * i)
    inverse = splat_f32(ONE / get_f32(lists + TOTALS + 4 * i))
    for e in range(0, argument(args, Attention.HEAD_WIDTH) * 4, 64):
        store_f32(out + e, mul_f32(load_f32(out + e), inverse))
