"""Attention over the paged cache with grouped heads (docs/arithmetic.md, "Attention").

A tile holds queries that read the same keys: the query heads of one KV head, for one or several rows of one slot.
Scores of all positions are computed first, then their maximum, then pages are weighted and added in order
(attention_steps.py). A row that sees fewer positions than its neighbours in the tile, because it comes sooner or by
its window, gives the surplus the weight 0, which adds nothing: so pages that none of them sees are left out.
"""

from functools import cache
from typing import Any, NamedTuple

from dllama_py.kernels.attention_steps import (
    LENGTHS,
    OUTPUTS,
    QUERIES,
    SCORES,
    Attention,
    Queries,
    divide,
    first_seen,
    score_page,
    score_page_of_few,
    sum_values,
    sum_values_of_few,
    weigh,
)
from dllama_py.kernels.constants import constant
from dllama_py.kernels.heads import ROW_BYTES, ROW_POSITION, ROW_TABLE
from dllama_py.kernels.layout import LISTS_BYTES, PAGE, TILE
from dllama_py.kernels.program import Kernel, argument
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.tiles import rows_zero_f32
from dllama_py.kernels.vectors import get_i64, set_i64

NO_LENGTH = 1 << 62
FEW = 2  # queries; they leave room for four vectors each, which hides the latency of fma (1.5 times as fast)


class Tile(NamedTuple):
    """Query heads of one KV head, for one or several rows of one slot."""

    kv_head: int
    row: int
    n_rows: int
    first_head: int
    n_heads: int


@cache
def attention(half_cache: bool) -> Kernel:
    """out[row, head] = softmax(q k * scale) v over the positions that the row sees, up to its own."""
    half = int(half_cache)

    def attend(args: int, thread: int, threads: int) -> None:
        walk_queries(constant(half), args, thread, threads)

    return Kernel(
        attend,
        Attention,
        dict.fromkeys((Attention.WINDOW, Attention.SINKS), 0),
        name=f"attention_{half}",
        made_by=(attention, half_cache),
    )


@njit(error_model="numpy", inline="always")
def walk_queries(half: Any, args: int, thread: int, threads: int) -> None:
    """Items are (KV head, row), of as many parts as there are threads: threads that share one share its query heads.

    Rows of one slot that follow each other share a tile while it has room.
    """
    n_rows = get_i64(argument(args, Attention.N_ROWS))
    n_items = n_rows * argument(args, Attention.KV_HEADS)
    at, end = n_items * thread, n_items * (thread + 1)  # parts
    item, part = at // threads, at % threads
    kv_head, row = item // n_rows, item % n_rows
    while at < end:
        group = argument(args, Attention.HEAD_GROUPS) + 8 * kv_head
        first_head, end_head = get_i64(group), get_i64(group + 8)
        n_parts, n_together = min(threads - part, end - at), 1
        if n_parts == threads:
            room = max(TILE // max(end_head - first_head, 1), 1)
            n_together = rows_together(args, row, min((end - at) // threads, n_rows - row), room)
        else:
            n_heads = end_head - first_head
            end_head = first_head + n_heads * (part + n_parts) // threads
            first_head += n_heads * part // threads
        for head in range(first_head, end_head, TILE):
            attend_tile(half, args, thread, Tile(kv_head, row, n_together, head, min(TILE, end_head - head)))
        at, row, part = at + n_together * n_parts, row + n_together, 0
        if row == n_rows:
            kv_head, row = kv_head + 1, 0


@njit(error_model="numpy")
def rows_together(args: int, row: int, available: int, room: int) -> int:
    """How many rows from `row` on are of its slot, within the room of a tile."""
    table = get_i64(argument(args, Attention.ROWS) + row * ROW_BYTES + ROW_TABLE)
    n = 1
    while (
        n < min(available, room)
        and get_i64(argument(args, Attention.ROWS) + (row + n) * ROW_BYTES + ROW_TABLE) == table
    ):
        n += 1
    return n


@njit(error_model="numpy", inline="always")
def attend_tile(half: Any, args: int, thread: int, tile: Tile) -> None:
    """Scores, weights and values of a tile's queries."""
    queries = list_queries(args, thread, tile)
    n_pages = (queries.longest + PAGE - 1) // PAGE
    table = get_i64(argument(args, Attention.ROWS) + tile.row * ROW_BYTES + ROW_TABLE)
    for page in range(queries.first_page, n_pages):
        page_head = get_i64(table + 8 * page) * argument(args, Attention.KV_HEADS) + tile.kv_head
        at_height(score_page, score_page_of_few, half, args, queries, (page_head, page))
    for i in range(queries.n):
        weigh(args, queries, i, tile.first_head + i % tile.n_heads)
    for element in range(0, argument(args, Attention.HEAD_WIDTH), 64 if queries.n <= FEW else 16):
        at_height(sum_values, sum_values_of_few, half, args, queries, (table, tile.kv_head, element))
    for i in range(queries.n):
        divide(args, queries.lists, i)


@njit(error_model="numpy")
def list_queries(args: int, thread: int, tile: Tile) -> Queries:
    """Notes of each query, row by row: where it, its output and its scores are, and how many positions it sees."""
    lists = argument(args, Attention.SCRATCH) + thread * argument(args, Attention.SCRATCH_STRIDE)
    n, longest, shortest = tile.n_rows * tile.n_heads, 0, NO_LENGTH
    for i in range(n):
        row, head = tile.row + i // tile.n_heads, tile.first_head + i % tile.n_heads
        head_at = head * argument(args, Attention.HEAD_WIDTH) * 4
        length = get_i64(argument(args, Attention.ROWS) + row * ROW_BYTES + ROW_POSITION) + 1
        longest, shortest = max(longest, length), min(shortest, length)
        q = argument(args, Attention.Q) + row * argument(args, Attention.Q_STRIDE)
        out = argument(args, Attention.OUT) + row * argument(args, Attention.OUT_STRIDE)
        set_i64(lists + QUERIES + 8 * i, q + head_at)
        set_i64(lists + OUTPUTS + 8 * i, out + head_at)
        set_i64(lists + LENGTHS + 8 * i, length)
    scores_bytes = (longest + PAGE - 1) // PAGE * PAGE * 4
    for i in range(n):
        set_i64(lists + SCORES + 8 * i, lists + LISTS_BYTES + i * scores_bytes)
    return Queries(lists, n, first_seen(args, shortest) // PAGE, longest)


@njit(error_model="numpy", inline="always")
def at_height(step: Any, step_of_few: Any, half: Any, args: int, queries: Queries, place: Any) -> None:
    """A step at the smallest height that holds all queries."""
    if queries.n > 4:
        step(half, rows_zero_f32(constant(8)), args, queries, place)
    elif queries.n > FEW:
        step(half, rows_zero_f32(constant(4)), args, queries, place)
    elif queries.n > 1:
        step_of_few(half, rows_zero_f32(constant(2)), args, queries, place)
    else:
        step_of_few(half, rows_zero_f32(constant(1)), args, queries, place)
