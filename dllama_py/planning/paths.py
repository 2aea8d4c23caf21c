"""The fastest way through a row of stages: which stage takes which layers, exactly, by dynamic programming.

It knows times, not why they are so; which ways are good beside being fast is told in borders.py.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Seconds = NDArray[np.float64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Of S stages and L layers; infinite where a stage cannot hold such a range of layers, or the range is empty."""

    decode_s: Seconds  # [S, L + 1, L + 1]: stage, first layer, layer behind the last
    prefill_s: Seconds  # [S, L + 1, L + 1]: a chunk of a prompt
    hops_s: Seconds  # [S, S]: from a stage to a later one
    arrive_s: Seconds  # [S]: from the root to a stage that is the first
    answer_s: Seconds  # [S]: from a stage that is the last to the root

    @property
    def n_stages(self) -> int:
        return int(self.decode_s.shape[0])

    @property
    def n_layers(self) -> int:
        return int(self.decode_s.shape[1]) - 1

    def token_s(self, counts: tuple[int, ...]) -> float:
        """One sequence's way through all stages, with so many layers each."""
        return _walk(self, self.decode_s, counts)

    def slowest_s(self, counts: tuple[int, ...], of: Seconds) -> float:
        """The slowest stage's part of `of`, decode_s or prefill_s."""
        return float(max(of[stage, layers.start, layers.stop] for stage, layers in ranges(counts)))


def ranges(counts: tuple[int, ...]) -> list[tuple[int, range]]:
    """Stages that hold layers, and which."""
    found, at = [], 0
    for stage, count in enumerate(counts):
        if count:
            found.append((stage, range(at, at + count)))
        at += count
    return found


@dataclass(frozen=True, slots=True)
class Ways:
    """The fastest ways with every number of stages (`counted`), or with any number of them (one entry)."""

    times: StageTimes
    counted: bool
    costs_s: Seconds  # [S, L + 1, L + 1]
    before_s: Seconds  # [S, N, L + 1]: until layers from here on can begin on this stage
    ends_s: Seconds  # [S, N, L + 1]: until the layers up to here are done, on this stage

    @property
    def seconds(self) -> Seconds:
        """[N]: of a whole token; infinite where there is no way."""
        ends_s: Seconds = (self.ends_s[:, :, -1] + self.times.answer_s[:, None]).min(axis=0)
        return ends_s

    def counts(self, n: int = 0) -> tuple[int, ...]:
        """Layers of each stage on the n-th of these ways; of equal ones that whose later stages have fewest layers."""
        counts = [0] * self.times.n_stages
        stage = int(np.argmin(self.ends_s[:, n, -1] + self.times.answer_s))
        border = self.times.n_layers
        while True:
            first = int(_last_argmin(self.before_s[stage, n] + self.costs_s[stage, :, border]))
            counts[stage], border = border - first, first
            if not border:
                return tuple(counts)
            n -= self.counted
            stage = int(np.argmin(self.ends_s[:stage, n, border] + self.times.hops_s[:stage, stage]))


def fastest(times: StageTimes, allowed: Flags, counted: bool = False) -> Ways:
    """Ways that use allowed ranges only, bool [S, L + 1, L + 1]."""
    n_stages, n_layers = times.n_stages, times.n_layers
    n = n_stages if counted else 1
    costs = np.where(allowed, times.decode_s, np.inf)
    before = np.full((n_stages, n, n_layers + 1), np.inf)
    ends = np.full((n_stages, n, n_layers + 1), np.inf)
    for stage in range(n_stages):
        if stage:
            hops = times.hops_s[:stage, stage, None, None]
            came = (ends[:stage] + hops).min(axis=0)  # [N, L + 1]
            if counted:
                before[stage, 1:] = came[:-1]
            else:
                before[stage] = came
        before[stage, 0, 0] = times.arrive_s[stage]
        ends[stage] = (before[stage, :, :, None] + costs[stage]).min(axis=1)
    return Ways(times, counted, costs, before, ends)


def _walk(times: StageTimes, costs: Seconds, counts: tuple[int, ...]) -> float:
    used = ranges(counts)
    stages = [stage for stage, _ in used]
    total = times.arrive_s[stages[0]] + times.answer_s[stages[-1]]
    total += sum(costs[stage, layers.start, layers.stop] for stage, layers in used)
    return float(total + sum(times.hops_s[a, b] for a, b in zip(stages, stages[1:], strict=False)))


def _last_argmin(values: Seconds) -> int:
    return len(values) - 1 - int(np.argmin(values[::-1]))
