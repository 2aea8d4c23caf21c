"""Which experts each row goes to, and the lists by which the matrix kernels find the rows of an expert."""

from typing import Any

import numpy as np
from numba import njit

from dllama_py.kernels.elementary import exp
from dllama_py.kernels.program import argument, kernel
from dllama_py.kernels.vectors import get_f32, get_i64, max_lanes, set_f32, set_i64, splat_f32

LOWEST = np.float32(-3.4028235e38)

N_ROWS, LOGITS, STRIDE, N_EXPERTS, N_CHOSEN, STARTS, ROWS, PAIRS, FACTORS, CHOSEN = range(10)


@kernel
def route(args: int, thread: int, threads: int) -> None:
    """The largest logits of each row (ties to the lower index), weighted by softmax over the chosen.

    Words: N_ROWS (address); LOGITS float32 with STRIDE bytes; N_EXPERTS, N_CHOSEN = k. Written: STARTS int64
    [experts + 1], borders of the experts in the lists; ROWS int64, the row of each entry; PAIRS int64, row * k + place
    of the expert among the row's, ascending; FACTORS float32. CHOSEN: int64 [rows, k] scratch. One thread does it.
    """
    if thread != 0:
        return
    n_rows, k = get_i64(argument(args, N_ROWS)), argument(args, N_CHOSEN)
    n_experts, starts, chosen = argument(args, N_EXPERTS), argument(args, STARTS), argument(args, CHOSEN)
    for row in range(n_rows):
        choose(argument(args, LOGITS) + row * argument(args, STRIDE), n_experts, k, chosen + 8 * k * row)
    entry = 0
    for expert in range(n_experts):
        set_i64(starts + 8 * expert, entry)
        for pair in range(n_rows * k):
            if get_i64(chosen + 8 * pair) == expert:
                logits = argument(args, LOGITS) + pair // k * argument(args, STRIDE)
                set_i64(argument(args, ROWS) + 8 * entry, pair // k)
                set_i64(argument(args, PAIRS) + 8 * entry, pair)
                set_f32(argument(args, FACTORS) + 4 * entry, factor(logits, chosen + 8 * (pair // k) * k, k, expert))
                entry += 1
    set_i64(starts + 8 * n_experts, entry)


@njit(error_model="numpy")
def choose(logits: int, n_experts: int, k: int, chosen: int) -> None:
    """The k best experts of a row, ascending by index."""
    for place in range(k):
        best, value = -1, LOWEST
        for expert in range(n_experts):
            logit = get_f32(logits + 4 * expert)
            if (best < 0 or logit > value) and not holds(chosen, place, expert):
                best, value = expert, logit
        at = place
        while at > 0 and get_i64(chosen + 8 * at - 8) > best:
            set_i64(chosen + 8 * at, get_i64(chosen + 8 * at - 8))
            at -= 1
        set_i64(chosen + 8 * at, best)


@njit(error_model="numpy")
def holds(chosen: int, n: int, expert: int) -> bool:
    for i in range(n):
        if get_i64(chosen + 8 * i) == expert:
            return True
    return False


@njit(error_model="numpy")
def factor(logits: int, chosen: int, k: int, expert: int) -> Any:
    """exp(logit - max) of an expert over the sum of all chosen, ascending."""
    highest = LOWEST
    for i in range(k):
        highest = max(highest, get_f32(logits + 4 * get_i64(chosen + 8 * i)))
    total, own = np.float32(0), np.float32(0)
    for i in range(k):
        e = get_i64(chosen + 8 * i)
        weight = max_lanes(exp(splat_f32(get_f32(logits + 4 * e) - highest)))
        total += weight
        if e == expert:
            own = weight
    return own / total
