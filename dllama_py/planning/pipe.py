"""Jobs that pass a row of stages, several on their way at once: when each is through.

Stages of one host share its cores, so each takes longer the more of them are at work at that moment: all is followed
from event to event. What a job is, and where these times come from, is not known here.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Slowdown = Callable[[NDArray[np.intp]], NDArray[np.float64]]

_TOGETHER = 1 + 1e-9  # what ends this near to each other ends at once


@dataclass(frozen=True, slots=True)
class Pipe:
    """Of S stages. `slowdown`: while these stages work, how many times as long each of them takes."""

    stages_s: tuple[float, ...]  # [S]: a job's work, above 0, with nobody else at work
    hops_s: tuple[float, ...]  # [S - 1]: to the next stage, one job after the other
    slowdown: Slowdown


def one_after_another(pipe: Pipe, n_jobs: int) -> list[float]:
    """Seconds until each job is through, if all wait before the first stage at 0."""
    return _through(pipe, n_jobs, n_jobs, None)


def round_s(pipe: Pipe, n_jobs: int, back_s: float) -> float:
    """Of a round of all jobs, each of which enters again so long after it was through, once they have settled."""
    n_rounds = 2 * len(pipe.stages_s) + 4
    ends = _through(pipe, n_jobs, n_rounds * n_jobs, back_s)
    n_settled = n_rounds // 2
    return (ends[-1] - ends[-1 - n_settled * n_jobs]) / n_settled


def _through(pipe: Pipe, n_jobs: int, n_ends: int, back_s: float | None) -> list[float]:
    stages_s = np.array(pipe.stages_s)
    left_s, waiting = stages_s.copy(), np.zeros(len(stages_s), int)  # a job at work waits until it is done
    free_s = [0.0] * len(stages_s)  # when the way behind each stage can take the next job
    arrivals: list[tuple[float, int]] = [(0.0, 0)] * n_jobs
    now, ends = 0.0, list[float]()
    while len(ends) < n_ends:
        active = np.flatnonzero(waiting)
        slower = pipe.slowdown(active)
        lasts_s = left_s[active] * slower
        next_s = arrivals[0][0] - now if arrivals else np.inf
        step_s = min(float(lasts_s.min(initial=np.inf)), next_s)
        left_s[active] -= step_s / slower
        now += step_s
        while arrivals and arrivals[0][0] <= now * _TOGETHER:
            waiting[heapq.heappop(arrivals)[1]] += 1
        for stage in active[lasts_s <= step_s * _TOGETHER].tolist():
            waiting[stage] -= 1
            left_s[stage] = stages_s[stage]
            if stage < len(stages_s) - 1:
                free_s[stage] = max(now, free_s[stage]) + pipe.hops_s[stage]
                heapq.heappush(arrivals, (free_s[stage], stage + 1))
                continue
            ends.append(now)
            if back_s is not None:
                heapq.heappush(arrivals, (now + back_s, 0))
    return ends
