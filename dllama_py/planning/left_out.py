"""Why a stage got no layers, and what a split would gain that uses it all the same."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from dllama_py.planning.borders import NEARLY, fastest_with
from dllama_py.planning.paths import StageTimes
from dllama_py.planning.plan import Plan
from dllama_py.planning.pricing import Case
from dllama_py.planning.splits import proportional

NOTICEABLE = 1.005

Foretell = Callable[[tuple[int, ...]], Plan]


def left_out(case: Case, times: StageTimes, plan: Plan, foretell: Foretell) -> tuple[str, ...]:
    """A sentence for every stage of the plan without layers."""
    used = {stage for stage, count in enumerate(plan.counts) if count}
    token_s = times.token_s(plan.counts)
    return tuple(
        f"{_called(case, stage)} left out: {_reason(times, used | {stage}, token_s)}"
        f"{_gain(times, sorted(used | {stage}), plan, foretell)}"
        for stage, count in enumerate(plan.counts)
        if not count
    )


def _reason(times: StageTimes, stages: set[int], token_s: float) -> str:
    with_s = fastest_with(times, stages)
    if with_s == float("inf"):
        return "no layer has room there beside what the others have"
    if with_s > token_s * NOTICEABLE:
        return f"a token would take {1000 * with_s:.1f} ms with it instead of {1000 * token_s:.1f}"
    return "a prompt would be no faster with it"


def _gain(times: StageTimes, stages: list[int], plan: Plan, foretell: Foretell) -> str:
    """Of a split by the speed of many rows; nothing where that does not fit or would be no faster in anything."""
    counts = [0] * times.n_stages
    chunk_s = [_layer_s(times, stage) for stage in stages]
    if not np.isfinite(chunk_s).all():
        return ""
    speeds = [Fraction(1 / layer_s) for layer_s in chunk_s]
    for stage, count in zip(stages, proportional(speeds, times.n_layers), strict=True):
        counts[stage] = count
    if not np.isfinite(times.slowest_s(tuple(counts), times.decode_s)):
        return ""
    other = foretell(tuple(counts))
    gains = []
    if other.prefill_tok_s > plan.prefill_tok_s * NEARLY:
        gains.append(f"prompts of {other.prefill_tok_s:.0f} tokens/s instead of {plan.prefill_tok_s:.0f}")
    if plan.n_sequences > 1 and other.batch_tok_s > plan.batch_tok_s * NEARLY:
        gains.append(f"{plan.n_sequences} sequences of {other.batch_tok_s:.1f} instead of {plan.batch_tok_s:.1f}")
    return f"; --split {','.join(map(str, counts))} uses it, for {' and '.join(gains)}" if gains else ""


def _layer_s(times: StageTimes, stage: int) -> float:
    """Of a chunk in one layer, of those that have room there; infinite if none has."""
    return float(np.diagonal(times.prefill_s[stage], 1).min())


def _called(case: Case, stage: int) -> str:
    ranks = case.ranks(stage)
    hosts = ", ".join(dict.fromkeys(case.nodes[rank].facts.host.name for rank in ranks))
    return f"rank {ranks.start} on {hosts}" if len(ranks) == 1 else f"ranks {ranks.start} to {ranks[-1]} on {hosts}"
