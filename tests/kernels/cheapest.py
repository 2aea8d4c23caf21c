"""Kernels of decoding without the law of one answer, for price.py: what the fastest order would be."""

from functools import cache
from typing import Any

import numpy as np
from numba import cfunc, njit, types

from dllama_py.kernels.attention import FEW, TILE, Tile, at_height, list_queries
from dllama_py.kernels.attention_steps import (
    LENGTHS,
    OUTPUTS,
    SCORES,
    TOTALS,
    Attention,
    Queries,
    divide,
    listed,
    load_values,
    score_page,
    score_page_of_few,
)
from dllama_py.kernels.constants import constant
from dllama_py.kernels.elementary import EXPONENT_BIAS, EXPONENT_SHIFT, LOG2_E, LOWEST, ONE, ROUNDER
from dllama_py.kernels.elementwise import GatedHidden, keep
from dllama_py.kernels.heads import ROW_BYTES, ROW_TABLE
from dllama_py.kernels.layout import F32_BLOCK_BYTES, PAGE
from dllama_py.kernels.program import Kernel, argument, share
from dllama_py.kernels.tiles import rows_fma_at, rows_store
from dllama_py.kernels.vectors import (
    add_f32,
    add_i32,
    div_f32,
    f32_of_bits,
    first_lanes,
    fma_f32,
    get_f32,
    get_i64,
    load_f32,
    max_f32,
    max_lanes,
    mul_f32,
    set_f32,
    shift_left_i32,
    splat_f32,
    splat_i32,
    store_f32,
    sub_f32,
    sum_lanes,
    to_i32,
    zero_f32,
)

# Taylor's cubic of 2^x for x in [-0.5, 0.5], relative error below 1e-3: no exp could be much cheaper
POWER_1, POWER_2, POWER_3 = np.float32(0.6931472), np.float32(0.2402265), np.float32(0.0555041)
LOWEST_POWER = np.float32(-126)


class Uncached(Kernel):
    """Compiled anew in every process, so that it never meets the project's compiled kernels."""

    @property
    def address(self) -> int:  # type: ignore[override]
        return int(_compiled(self._function).address)


@cache
def _compiled(function: Any) -> Any:
    return cfunc(types.void(types.intp, types.intp, types.intp), nopython=True, error_model="numpy")(function)


@njit(forceinline=True)
def cheap_exp(x: Any) -> Any:
    """exp of 16 lanes, not above 0 or little, by 2^(x log2 e)."""
    x = max_f32(mul_f32(x, splat_f32(LOG2_E)), splat_f32(LOWEST_POWER))
    shifted = add_f32(x, splat_f32(ROUNDER))
    n = sub_f32(shifted, splat_f32(ROUNDER))
    r = sub_f32(x, n)
    p = fma_f32(splat_f32(POWER_3), r, splat_f32(POWER_2))
    p = fma_f32(p, r, splat_f32(POWER_1))
    y = fma_f32(p, r, splat_f32(ONE))
    return mul_f32(y, f32_of_bits(shift_left_i32(add_i32(to_i32(n), splat_i32(EXPONENT_BIAS)), EXPONENT_SHIFT)))


@njit(forceinline=True)
def cheap_silu(x: Any) -> Any:
    return div_f32(x, add_f32(splat_f32(ONE), cheap_exp(sub_f32(zero_f32(), x))))


def gated_hidden(args: int, thread: int, threads: int) -> None:
    """As elementwise.gated_hidden."""
    n_blocks = argument(args, GatedHidden.N_BLOCKS)
    first, end = share(n_blocks, thread, threads)
    for row in range(get_i64(argument(args, GatedHidden.N_ROWS))):
        for block in range(first, end):
            at = row * argument(args, GatedHidden.STRIDE) + block * F32_BLOCK_BYTES
            gate, up = argument(args, GatedHidden.GATE) + at, argument(args, GatedHidden.UP) + at
            a = mul_f32(cheap_silu(load_f32(gate)), load_f32(up))
            b = mul_f32(cheap_silu(load_f32(gate + 64)), load_f32(up + 64))
            keep(a, b, row * n_blocks + block, argument(args, GatedHidden.OUT_F32), argument(args, GatedHidden.OUT_Q))


def attention_f16(args: int, thread: int, threads: int) -> None:
    """As attention over a cache of halves, of one row: a head's positions are one sum."""
    heads = argument(args, Attention.HEAD_GROUPS)
    first, end = share(argument(args, Attention.KV_HEADS), thread, threads)
    for kv_head in range(first, end):
        start, stop = get_i64(heads + 8 * kv_head), get_i64(heads + 8 * kv_head + 8)
        for head in range(start, stop, TILE):
            attend(constant(1), args, thread, Tile(kv_head, 0, 1, head, min(TILE, stop - head)))


@njit(error_model="numpy", inline="always")
def attend(half: Any, args: int, thread: int, tile: Tile) -> None:
    """Scores as they are, exp and sums without tiles."""
    queries = list_queries(args, thread, tile)
    n_pages = (queries.longest + PAGE - 1) // PAGE
    table = get_i64(argument(args, Attention.ROWS) + tile.row * ROW_BYTES + ROW_TABLE)
    for page in range(n_pages):
        page_head = get_i64(table + 8 * page) * argument(args, Attention.KV_HEADS) + tile.kv_head
        at_height(score_page, score_page_of_few, half, args, queries, (page_head, page))
    for i in range(queries.n):
        weigh(args, queries.lists, i)
    for element in range(0, argument(args, Attention.HEAD_WIDTH), 64 if queries.n <= FEW else 16):
        at_height(sum_values, sum_values_of_few, half, args, queries, (table, tile.kv_head, element))
    for i in range(queries.n):
        divide(args, queries.lists, i)


@njit(error_model="numpy")
def weigh(args: int, lists: int, i: int) -> None:
    """Only as many vectors as there are positions, added to one sum."""
    scores, length = get_i64(lists + SCORES + 8 * i), get_i64(lists + LENGTHS + 8 * i)
    scale = splat_f32(get_f32(argument(args, Attention.SCALE)))
    best, total = splat_f32(LOWEST), zero_f32()
    for position in range(0, length, 16):
        best = max_f32(best, first_lanes(load_f32(scores + 4 * position), length - position, splat_f32(LOWEST)))
    highest = mul_f32(splat_f32(max_lanes(best)), scale)
    for position in range(0, length, 16):
        v = cheap_exp(sub_f32(mul_f32(load_f32(scores + 4 * position), scale), highest))
        v = first_lanes(v, length - position, zero_f32())
        store_f32(scores + 4 * position, v)
        total = add_f32(total, v)
    set_f32(lists + TOTALS + 4 * i, sum_lanes(total))


@njit(error_model="numpy")
def sum_values(half: Any, zero: Any, args: int, queries: Queries, place: Any) -> None:
    """16 elements."""
    table, kv_head, i = place
    weights, total = listed(zero, queries, SCORES), zero
    for page in range((queries.longest + PAGE - 1) // PAGE):
        page_head = get_i64(table + 8 * page) * argument(args, Attention.KV_HEADS) + kv_head
        for j in range(min(PAGE, queries.longest - page * PAGE)):
            total = rows_fma_at(total, load_values(half, args, page_head, j, i), weights, (page * PAGE + j) * 4)
    rows_store(listed(zero, queries, OUTPUTS), 4 * i, total)


@njit(error_model="numpy")
def sum_values_of_few(half: Any, zero: Any, args: int, queries: Queries, place: Any) -> None:
    """64 elements, or the last 16 repeated."""
    table, kv_head, i = place
    weights, last = listed(zero, queries, SCORES), argument(args, Attention.HEAD_WIDTH) - 16
    i1, i2, i3 = min(i + 16, last), min(i + 32, last), min(i + 48, last)
    a = b = c = d = zero
    for page in range((queries.longest + PAGE - 1) // PAGE):
        page_head = get_i64(table + 8 * page) * argument(args, Attention.KV_HEADS) + kv_head
        for j in range(min(PAGE, queries.longest - page * PAGE)):
            weight = (page * PAGE + j) * 4
            a = rows_fma_at(a, load_values(half, args, page_head, j, i), weights, weight)
            b = rows_fma_at(b, load_values(half, args, page_head, j, i1), weights, weight)
            c = rows_fma_at(c, load_values(half, args, page_head, j, i2), weights, weight)
            d = rows_fma_at(d, load_values(half, args, page_head, j, i3), weights, weight)
    out = listed(zero, queries, OUTPUTS)
    rows_store(out, 4 * i, a)
    rows_store(out, 4 * i1, b)
    rows_store(out, 4 * i2, c)
    rows_store(out, 4 * i3, d)


CHEAP_ATTENTION = Uncached(attention_f16, Attention)
CHEAP_HIDDEN = Uncached(gated_hidden, GatedHidden, (GatedHidden.OUT_F32, GatedHidden.OUT_Q))
