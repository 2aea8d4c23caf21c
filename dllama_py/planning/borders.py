"""Where to cut the layers of a model for the stages of a pipeline.

Of all ways that fit, those are kept, one rule after the other, that

1. need least time a token: one sequence passes all stages one after the other; of k sequences a token comes each time
   the slowest stage is done, or k in the time of a whole way, whichever takes longer;
2. have the fastest slowest stage, for which a long prompt waits (the head is computed for its last token only);
3. use the fewest stages;
4. have the smallest largest stage, counted in layers;

and of these the fastest is taken. The first two rules forgive what is `NEARLY` as good. Speeds are known only so well,
so equal machines get equal stages; and a machine is used that helps a prompt and costs a token next to nothing. What
counts of several sequences is the slowest stage, the head included.
"""

from collections.abc import Callable, Iterable

import numpy as np

from dllama_py.planning.paths import Flags, Seconds, StageTimes, fastest

NEARLY = 1.05
_ROUNDING = 1 + 1e-9  # the same times, added in another order


def choose(times: StageTimes, n_sequences: int = 1) -> tuple[int, ...] | None:
    """Layers of each stage, 0 for one that is left out; None if nothing fits. Exact: no better one by these rules."""
    allowed = np.isfinite(times.decode_s)
    token_s = _least_time(times, allowed, n_sequences)
    if not np.isfinite(token_s):
        return None
    way_s = token_s * n_sequences * NEARLY * _ROUNDING
    allowed = allowed & (times.decode_s <= token_s * NEARLY * _ROUNDING)

    def leads_through(bounds: Flags) -> bool:
        return bool(fastest(times, allowed & bounds).seconds[0] <= way_s)

    slowest_s = _smallest(times.prefill_s[allowed], lambda most_s: leads_through(times.prefill_s <= most_s))
    allowed = allowed & (times.prefill_s <= slowest_s * NEARLY * _ROUNDING)
    n_used = 1 + int(np.argmax(fastest(times, allowed, counted=True).seconds <= way_s))
    lengths = np.arange(times.n_layers + 1) - np.arange(times.n_layers + 1)[:, None]  # [first, behind the last]
    for most in range(1, times.n_layers + 1):
        ways = fastest(times, allowed & (lengths <= most), counted=True) if most * n_used >= times.n_layers else None
        if ways and ways.seconds[n_used - 1] <= way_s:
            return ways.counts(n_used - 1)
    raise AssertionError("a way that was found is gone")


def fastest_with(times: StageTimes, stages: Iterable[int]) -> float:
    """Seconds of a token on the fastest way that uses all of these stages; infinite if there is none."""
    hops, arrive, answer = times.hops_s.copy(), times.arrive_s.copy(), times.answer_s.copy()
    for stage in stages:
        hops[:stage, stage + 1 :] = arrive[stage + 1 :] = answer[:stage] = np.inf
    through = StageTimes(times.decode_s, times.prefill_s, hops, arrive, answer)
    return float(fastest(through, np.isfinite(times.decode_s)).seconds[0])


def _least_time(times: StageTimes, allowed: Flags, n_sequences: int) -> float:
    """Least of max(slowest stage, whole way / k)."""
    candidates = np.unique(times.decode_s[allowed])
    if not candidates.size:
        return np.inf

    def way_s(most_s: float) -> float:
        return float(fastest(times, allowed & (times.decode_s <= most_s)).seconds[0]) / n_sequences

    at = _first(candidates, lambda most_s: way_s(most_s) <= most_s)
    found = [max(candidates[i], way_s(candidates[i])) for i in (at - 1, at) if 0 <= i < len(candidates)]
    return float(min(found))


def _smallest(values: Seconds, is_enough: Callable[[float], bool]) -> float:
    """The smallest of the values that is enough; the largest one is."""
    candidates = np.unique(values)
    return float(candidates[min(_first(candidates, is_enough), len(candidates) - 1)])


def _first(values: Seconds, holds: Callable[[float], bool]) -> int:
    """Index of the first of ascending values from which on it holds; their number if it never does."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(float(values[middle])) else (middle + 1, high)
    return low
