"""Which experts each row goes to, and the lists by which the matrix kernels find the rows of an expert."""

from typing import Any

import numpy as np

from dllama_py.kernels.elementary import LOWEST, exp
from dllama_py.kernels.program import argument, kernel
from dllama_py.kernels.subroutines import njit
from dllama_py.kernels.vectors import get_f32, get_i64, max_lanes, set_f32, set_i64, splat_f32
from dllama_py.kernels.words import Words


class Route(Words):
    N_ROWS = "int64 [1], rows of the step"
    LOGITS = "float32 [n_rows, n_experts]"
    STRIDE = "bytes from row to row of the logits"
    N_EXPERTS = "experts of the layer"
    N_CHOSEN = "k, experts of a row"
    STARTS = "out: int64 [n_experts + 1], borders of the experts in the lists"
    ROWS = "out: int64 [n_rows * k], the row of each entry"
    PAIRS = "out: int64 [n_rows * k], row * k + place of the expert among the row's, ascending"
    FACTORS = "out: float32 [n_rows * k], the expert's weight"
    CHOSEN = "scratch: int64 [n_rows, k]"
    WEIGHS_ALL = "1: softmax over all experts, 0: over the chosen"


@kernel(Route)
def route(args: int, thread: int, threads: int) -> None:
    """The k largest logits of each row (ties to the lower index), weighted by softmax over the chosen or over all.

    The lists have an entry for each (row, chosen expert), sorted by expert, then by row. One thread does it.
    """
    if thread != 0:
        return
    n_rows, k = get_i64(argument(args, Route.N_ROWS)), argument(args, Route.N_CHOSEN)
    n_experts, starts, chosen = (
        argument(args, Route.N_EXPERTS),
        argument(args, Route.STARTS),
        argument(args, Route.CHOSEN),
    )
    for row in range(n_rows):
        choose(logits_of(args, row), n_experts, k, chosen + 8 * k * row)
    entry = 0
    for expert in range(n_experts):
        set_i64(starts + 8 * expert, entry)
        for pair in range(n_rows * k):
            if get_i64(chosen + 8 * pair) == expert:
                row = pair // k
                set_i64(argument(args, Route.ROWS) + 8 * entry, row)
                set_i64(argument(args, Route.PAIRS) + 8 * entry, pair)
                logits, own = logits_of(args, row), chosen + 8 * k * row
                if argument(args, Route.WEIGHS_ALL) != 0:
                    weight = factor_of_all(logits, n_experts, expert)
                else:
                    weight = factor(logits, own, k, expert)
                set_f32(argument(args, Route.FACTORS) + 4 * entry, weight)
                entry += 1
    set_i64(starts + 8 * n_experts, entry)


@njit(forceinline=True)
def logits_of(args: int, row: int) -> Any:
    """Address of a row's logits."""
    return argument(args, Route.LOGITS) + row * argument(args, Route.STRIDE)


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
    """Whether an expert is among the first n chosen."""
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


@njit(error_model="numpy")
def factor_of_all(logits: int, n_experts: int, expert: int) -> Any:
    """exp(logit - max) of an expert over the sum of all there are, ascending."""
    highest = LOWEST
    for e in range(n_experts):
        highest = max(highest, get_f32(logits + 4 * e))
    total, own = np.float32(0), np.float32(0)
    for e in range(n_experts):
        weight = max_lanes(exp(splat_f32(get_f32(logits + 4 * e) - highest)))
        total += weight
        if e == expert:
            own = weight
    return own / total


class SharedFactors(Words):
    N_ROWS = "int64 [1], rows of the step"
    LOGITS = "float32 [n_rows, 16], of which the first column counts"
    STRIDE = "bytes from row to row of the logits"
    FACTORS = "out: float32 [n_rows]"


@kernel(SharedFactors)
def shared_factors(args: int, thread: int, threads: int) -> None:
    """1 / (1 + exp(-logit)): the weight of the expert that every row uses. One thread does it."""
    if thread != 0:
        return
    for row in range(get_i64(argument(args, SharedFactors.N_ROWS))):
        logit = get_f32(argument(args, SharedFactors.LOGITS) + row * argument(args, SharedFactors.STRIDE))
        power = max_lanes(exp(splat_f32(-logit)))
        set_f32(argument(args, SharedFactors.FACTORS) + 4 * row, np.float32(1) / (np.float32(1) + power))
