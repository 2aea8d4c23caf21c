"""What the root needs to know of a row's logits to choose a token: the best candidates, and sums over the vocabulary.

The vocabulary is cut into the same shares whatever the number of ranks, and a rank holds whole shares.
"""

from typing import Any

import numpy as np

from dllama_py.kernels.elementary import EXP_LOW, exp
from dllama_py.kernels.keys import INFINITY, LAST_ID, MAGNITUDE, MOST_CANDIDATES, NOTHING
from dllama_py.kernels.program import argument, kernel, share
from dllama_py.kernels.selection import float_of_bits, kept_from, mask_above, set_f64
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.vectors import (
    add_f32,
    first_lanes,
    get_f32,
    get_i32,
    get_i64,
    load_f32,
    max_f32,
    max_lanes,
    mul_f32,
    set_i64,
    splat_f32,
    sub_f32,
    sum_lanes,
    zero_f32,
)
from dllama_py.kernels.words import Words

CHUNK = 1024  # logits whose exponentials are added in float32
LANES = 16
QUIET, NEGATIVE_ZERO = 0x7FC00000, -0x80000000  # bits
MINUS_INFINITY = np.float32(-np.inf)


class FindCandidates(Words):
    N_ROWS = "int64 [1], rows whose logits are wanted"
    N_CANDIDATES = "int64 [1]: C, of each row; 0: there is nothing to do"
    N_TOKENS = "int64 [n_rows], ids below it may be chosen"
    INVERSE_TEMPERATURES = "float32 [n_rows]; 0 where no sums are wanted"
    LOGITS = "float32 [n_rows, columns], 16 columns longer than the last share"
    STRIDE = "bytes from row to row of logits"
    FIRST_ID = "the id of the first column"
    BORDERS = "int64 [n_shares + 1], columns"
    N_SHARES = "of this rank"
    LISTS = "out: int64 [n_rows, threads, MOST_CANDIDATES], keys of what each thread has seen, the least one first"
    OUT = "out: int64 [n_rows, C + 2 * n_shares]: only the floats, of each share (largest logit, sum)"


@kernel(FindCandidates)
def find_candidates(args: int, thread: int, threads: int) -> None:
    """Each thread's best candidates; of each share the largest logit and Σ exp((logit - largest) / temperature)."""
    n_candidates = get_i64(argument(args, FindCandidates.N_CANDIDATES))
    n_shares = argument(args, FindCandidates.N_SHARES)
    if n_candidates == 0:
        return
    borders, first_id = argument(args, FindCandidates.BORDERS), argument(args, FindCandidates.FIRST_ID)
    first, end = share(n_shares, thread, threads)
    for row in range(get_i64(argument(args, FindCandidates.N_ROWS))):
        logits = argument(args, FindCandidates.LOGITS) + row * argument(args, FindCandidates.STRIDE)
        keys = argument(args, FindCandidates.LISTS) + 8 * MOST_CANDIDATES * (row * threads + thread)
        floats = argument(args, FindCandidates.OUT) + 8 * (row * (n_candidates + 2 * n_shares) + n_candidates)
        n_columns = get_i64(argument(args, FindCandidates.N_TOKENS) + 8 * row) - first_id
        inverse = get_f32(argument(args, FindCandidates.INVERSE_TEMPERATURES) + 4 * row)
        for i in range(n_candidates):
            set_i64(keys + 8 * i, NOTHING)
        for number in range(first, end):
            start = get_i64(borders + 8 * number)
            stop = min(get_i64(borders + 8 * number + 8), n_columns)
            collect(logits, start, stop, first_id, keys, n_candidates)
            if inverse != 0:
                largest = largest_of(logits, start, stop)
                set_f64(floats + 16 * number, np.float64(largest))
                set_f64(floats + 16 * number + 8, sum_of(logits, start, stop, largest, inverse))


class MergeCandidates(Words):
    N_ROWS = "int64 [1], rows whose logits are wanted"
    N_CANDIDATES = "int64 [1]: C, of each row; 0: there is nothing to do"
    N_SHARES = "of this rank"
    LISTS = "int64 [n_rows, threads, MOST_CANDIDATES], as find_candidates leaves them"
    OUT = "out: int64 [n_rows, C + 2 * n_shares]: only the keys, in no order"


@kernel(MergeCandidates)
def merge_candidates(args: int, thread: int, threads: int) -> None:
    """The best candidates of each row."""
    n_candidates = get_i64(argument(args, MergeCandidates.N_CANDIDATES))
    stride = 8 * (n_candidates + 2 * argument(args, MergeCandidates.N_SHARES))
    first, end = share(get_i64(argument(args, MergeCandidates.N_ROWS)), thread, threads)
    for row in range(first, end):
        lists = argument(args, MergeCandidates.LISTS) + 8 * MOST_CANDIDATES * row * threads
        best = argument(args, MergeCandidates.OUT) + row * stride
        for i in range(n_candidates):
            set_i64(best + 8 * i, get_i64(lists + 8 * i))
        for other in range(1, threads):
            for i in range(n_candidates):
                key = get_i64(lists + 8 * (MOST_CANDIDATES * other + i))
                if key > get_i64(best):
                    replace_least(best, n_candidates, key)


@njit(error_model="numpy")
def collect(logits: int, start: int, stop: int, first_id: int, keys: int, n_candidates: int) -> None:
    """Columns from start to stop into the n best so far; these come later in the vocabulary than those."""
    limit = logit_of(get_i64(keys))
    for column in range(start, stop, LANES):
        at = logits + 4 * column
        above = mask_above(load_f32(at), limit)
        if above == 0:
            continue
        for lane in range(min(LANES, stop - column)):
            if above >> lane & 1:
                key = key_of(get_i32(at + 4 * lane), first_id + column + lane)
                if key > get_i64(keys):
                    replace_least(keys, n_candidates, key)
        limit = logit_of(get_i64(keys))


@njit(error_model="numpy")
def replace_least(keys: int, n: int, key: int) -> None:
    """A heap of n keys, the least one first: that one gives way to a greater key."""
    place, child = 0, 1
    while child < n:
        if child + 1 < n and get_i64(keys + 8 * child + 8) < get_i64(keys + 8 * child):
            child += 1
        least = get_i64(keys + 8 * child)
        if least >= key:
            break
        set_i64(keys + 8 * place, least)
        place, child = child, 2 * child + 1
    set_i64(keys + 8 * place, key)


@njit(forceinline=True, error_model="numpy")
def key_of(bits: int, token: int) -> Any:
    """The key of a candidate; both zeros are one, and so is everything that is not a number."""
    order = np.int64(bits)
    if order & MAGNITUDE > INFINITY:
        order = np.int64(QUIET)
    elif order == NEGATIVE_ZERO:
        order = np.int64(0)
    elif order < 0:
        order ^= MAGNITUDE
    return (order << 32) | (LAST_ID - token)


@njit(forceinline=True, error_model="numpy")
def logit_of(key: int) -> Any:
    """The logit of a key."""
    order = key >> 32
    if order < 0:
        order ^= MAGNITUDE
    return float_of_bits(np.int32(order))


@njit(error_model="numpy")
def largest_of(logits: int, start: int, stop: int) -> Any:
    """The largest of some columns, minus infinity of none."""
    lowest = splat_f32(MINUS_INFINITY)
    largest = lowest
    for column in range(start, stop, LANES):
        largest = max_f32(first_lanes(load_f32(logits + 4 * column), stop - column, lowest), largest)
    return max_lanes(largest)


@njit(error_model="numpy")
def sum_of(logits: int, start: int, stop: int, largest: float, inverse: float) -> Any:
    """Σ exp((logit - largest) * inverse): chunks in 16 lanes of float32, added ascending in float64."""
    total = np.float64(0)
    if largest == MINUS_INFINITY:
        return total
    for chunk in range(start, stop, CHUNK):
        lanes = zero_f32()
        end = min(chunk + CHUNK, stop)
        for column in range(chunk, end, LANES):
            v = first_lanes(load_f32(logits + 4 * column), end - column, splat_f32(MINUS_INFINITY))
            x = mul_f32(sub_f32(v, splat_f32(largest)), splat_f32(inverse))
            lanes = add_f32(lanes, kept_from(exp(x), x, EXP_LOW))
        total += np.float64(sum_lanes(lanes))
    return total
