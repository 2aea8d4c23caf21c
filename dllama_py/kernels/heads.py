"""Between the projections and attention: head norms, RoPE, and writing keys and values into the cache.

Cache pages hold 64 positions of one KV head: keys as [4, E, 16], so that 16 positions are one vector in attention and
one key lies within 16 * E elements; values as [64, E]. A page of all local KV heads is contiguous: [kv heads, E * 64].
"""

from functools import cache
from typing import Any

from dllama_py.kernels.constants import constant, number_of
from dllama_py.kernels.elementary import inverse_rms, normalized
from dllama_py.kernels.layout import PAGE, RUN
from dllama_py.kernels.program import Kernel, argument, part_of_row, rows_touched, share
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.vectors import (
    evens,
    fma,
    fma_f32,
    get_f32,
    get_i16,
    get_i32,
    get_i64,
    load_f32,
    mul_f32,
    neg_f32,
    odds,
    set_f32,
    set_i16,
    set_i32,
    store_f16,
    store_f32,
    zip_high,
    zip_low,
)
from dllama_py.kernels.words import Words

# An entry of `rows`, int64 words: position, and the address of the slot's page table.
ROW_BYTES, ROW_POSITION, ROW_TABLE = 16, 0, 8


class PrepareHeads(Words):
    """H, K: query and KV heads of this rank."""

    N_ROWS = "int64 [1], rows of the step"
    Q = "float32 [n_rows, H, E], overwritten"
    K = "float32 [n_rows, K, E], overwritten"
    V = "float32 [n_rows, K, E]"
    Q_STRIDE = "bytes from row to row of q"
    KV_STRIDE = "bytes from row to row of k and v"
    Q_HEADS = "H"
    KV_HEADS = "K"
    HEAD_WIDTH = "E"
    Q_NORM = "float32 [E], or left out: no norm"
    K_NORM = "float32 [E], or left out: no norm"
    EPSILON = "float32 [1]"
    COS = "float32 [positions, E/2]"
    SIN = "float32 [positions, E/2]"
    ROWS = "int64 [n_rows, 2], position of each row and address of its slot's page table"
    K_CACHE = "keys of the layer, float16 or float32 [pages, K, 4, E, 16]"
    V_CACHE = "values of the layer, float16 or float32 [pages, K, 64, E]"


@cache
def prepare_heads(half_cache: bool, adjacent_pairs: bool) -> Kernel:
    """Norms and turns query heads in place; norms, turns and stores key heads; stores value heads."""
    half, adjacent = int(half_cache), int(adjacent_pairs)

    def prepare(args: int, thread: int, threads: int) -> None:
        walk_heads(constant(half), constant(adjacent), args, thread, threads)

    norms = (PrepareHeads.Q_NORM, PrepareHeads.K_NORM)
    return Kernel(
        prepare,
        PrepareHeads,
        dict.fromkeys(norms, 0),
        name=f"prepare_heads_{half}{adjacent}",
        made_by=(prepare_heads, half_cache, adjacent_pairs),
    )


@njit(error_model="numpy")
def walk_heads(half: Any, adjacent: Any, args: int, thread: int, threads: int) -> None:
    """Items are (head, row) over query, key and value heads: a page of one head stays in the nearest cache."""
    q_heads, n_rows = argument(args, PrepareHeads.Q_HEADS), get_i64(argument(args, PrepareHeads.N_ROWS))
    n_heads = q_heads + 2 * argument(args, PrepareHeads.KV_HEADS)
    first, end = share(n_heads * n_rows, thread, threads)
    start, stop = rows_touched(first, end, n_rows)
    for head in range(start, stop):
        first_row, end_row = part_of_row(head, first, end, n_rows)
        for row in range(first_row, end_row):
            if head < q_heads:
                prepare_query(adjacent, args, row, head)
            else:
                prepare_key_or_value(half, adjacent, args, row, head - q_heads)


@njit(error_model="numpy")
def prepare_query(adjacent: Any, args: int, row: int, head: int) -> None:
    """Norms and turns a query head."""
    width = argument(args, PrepareHeads.HEAD_WIDTH)
    x = argument(args, PrepareHeads.Q) + row * argument(args, PrepareHeads.Q_STRIDE) + head * 4 * width
    position = get_i64(argument(args, PrepareHeads.ROWS) + row * ROW_BYTES + ROW_POSITION)
    norm_and_turn(adjacent, args, x, argument(args, PrepareHeads.Q_NORM), position)


@njit(error_model="numpy")
def prepare_key_or_value(half: Any, adjacent: Any, args: int, row: int, head: int) -> None:
    """Norms, turns and stores key head `head`; from K on stores value head `head - K`."""
    kv_heads, width = argument(args, PrepareHeads.KV_HEADS), argument(args, PrepareHeads.HEAD_WIDTH)
    entry = argument(args, PrepareHeads.ROWS) + row * ROW_BYTES
    position = get_i64(entry + ROW_POSITION)
    is_key = head < kv_heads
    kv_head = head if is_key else head - kv_heads
    at = page_of(entry, position) * kv_heads + kv_head
    offset = row * argument(args, PrepareHeads.KV_STRIDE) + kv_head * 4 * width
    if is_key:
        x = argument(args, PrepareHeads.K) + offset
        norm_and_turn(adjacent, args, x, argument(args, PrepareHeads.K_NORM), position)
        store_key(half, x, argument(args, PrepareHeads.K_CACHE), at, position % PAGE, width)
    else:
        x = argument(args, PrepareHeads.V) + offset
        store_value(half, x, argument(args, PrepareHeads.V_CACHE), at, position % PAGE, width)


@njit(forceinline=True)
def page_of(entry: int, position: int) -> Any:
    """Number of the page that holds a position of the row's slot."""
    return get_i64(get_i64(entry + ROW_TABLE) + 8 * (position // PAGE))


@njit(error_model="numpy")
def norm_and_turn(adjacent: Any, args: int, x: int, weight: int, position: int) -> None:
    """rms norm (where there is a weight), then RoPE, of one head in place."""
    width = argument(args, PrepareHeads.HEAD_WIDTH)
    if weight != 0:
        inverse = inverse_rms(x, width, get_f32(argument(args, PrepareHeads.EPSILON)))
        for i in range(0, 4 * width, 64):
            store_f32(x + i, normalized(x + i, weight + i, inverse))
    cos, sin = (
        argument(args, PrepareHeads.COS) + position * 2 * width,
        argument(args, PrepareHeads.SIN) + position * 2 * width,
    )
    if number_of(adjacent):
        turn_adjacent(x, cos, sin, width // 2)
    else:
        turn_halves(x, cos, sin, width // 2)


@njit(forceinline=True)
def turn_adjacent(x: int, cos: int, sin: int, n_pairs: int) -> None:
    """Pairs (2i, 2i+1)."""
    i = 0
    while i + 16 <= n_pairs:
        low, high = load_f32(x + 8 * i), load_f32(x + 8 * i + 64)
        a, b, c, s = evens(low, high), odds(low, high), load_f32(cos + 4 * i), load_f32(sin + 4 * i)
        turned_a, turned_b = fma_f32(a, c, neg_f32(mul_f32(b, s))), fma_f32(a, s, mul_f32(b, c))
        store_f32(x + 8 * i, zip_low(turned_a, turned_b))
        store_f32(x + 8 * i + 64, zip_high(turned_a, turned_b))
        i += 16
    while i < n_pairs:
        turn_pair(x + 8 * i, x + 8 * i + 4, get_f32(cos + 4 * i), get_f32(sin + 4 * i))
        i += 1


@njit(forceinline=True)
def turn_halves(x: int, cos: int, sin: int, n_pairs: int) -> None:
    """Pairs (i, i + n_pairs)."""
    y = x + 4 * n_pairs
    i = 0
    while i + 16 <= n_pairs:
        a, b, c, s = load_f32(x + 4 * i), load_f32(y + 4 * i), load_f32(cos + 4 * i), load_f32(sin + 4 * i)
        store_f32(x + 4 * i, fma_f32(a, c, neg_f32(mul_f32(b, s))))
        store_f32(y + 4 * i, fma_f32(a, s, mul_f32(b, c)))
        i += 16
    while i < n_pairs:
        turn_pair(x + 4 * i, y + 4 * i, get_f32(cos + 4 * i), get_f32(sin + 4 * i))
        i += 1


@njit(forceinline=True)
def turn_pair(x: int, y: int, c: float, s: float) -> None:
    """One pair by its addresses, with its cos and sin."""
    a, b = get_f32(x), get_f32(y)
    set_f32(x, fma(a, c, -(b * s)))
    set_f32(y, fma(a, s, b * c))


@njit(error_model="numpy")
def store_key(half: Any, x: int, cache: int, at: int, offset: int, width: int) -> None:
    """The key at position `offset` of page number `at`; narrows in place first."""
    run, lane = offset // RUN, offset % RUN
    first = (at * (PAGE // RUN) + run) * width * RUN + lane
    if number_of(half):
        for i in range(0, width, 16):
            store_f16(x + 2 * i, load_f32(x + 4 * i))
        for e in range(width):
            set_i16(cache + 2 * (first + e * RUN), get_i16(x + 2 * e))
    else:
        for e in range(width):
            set_i32(cache + 4 * (first + e * RUN), get_i32(x + 4 * e))


@njit(error_model="numpy")
def store_value(half: Any, x: int, cache: int, at: int, offset: int, width: int) -> None:
    """Row `offset` of the value page [64, E] number `at`."""
    if number_of(half):
        page = cache + (at * PAGE + offset) * width * 2
        for i in range(0, width, 16):
            store_f16(page + 2 * i, load_f32(x + 4 * i))
    else:
        page = cache + (at * PAGE + offset) * width * 4
        for i in range(0, width, 16):
            store_f32(page + 4 * i, load_f32(x + 4 * i))
