"""A better split by what the stages of a running pipeline have really taken, by the rules of borders.py."""

from collections.abc import Sequence

import numpy as np

from dllama_py.planning.borders import choose
from dllama_py.planning.paths import Seconds, StageTimes
from dllama_py.planning.plan import Plan
from dllama_py.profiling.pipeline_advice import MeasuredPipeline, OtherSplit
from dllama_py.profiling.stage_costs import StageCost, StagePlace


def other_split(plan: Plan, measured: MeasuredPipeline) -> OtherSplit | None:
    """The best one among stages that have layers, whose speed is known; None if that is the present one."""
    if not measured.hops:
        return None
    times = _times(measured)
    chosen = choose(times)
    if chosen is None or chosen == tuple(len(stage.place.layers) for stage in measured.stages):
        return None
    of_rank = {stage.place.ranks.start: count for stage, count in zip(measured.stages, chosen, strict=True)}
    counts = tuple(of_rank.get(stage.ranks[0], 0) for stage in plan.stages)
    return OtherSplit(counts, times.token_s(chosen), times.slowest_s(chosen, times.prefill_s))


def places_of(plan: Plan, used: Sequence[range]) -> list[StagePlace]:
    """The stages that are used, by their ranks, with the layers that they have and those they have room for."""
    by_leader = {stage.ranks[0]: stage for stage in plan.stages}
    full = next(stage for stage in plan.stages if stage.layers)
    layer_bytes = (full.weights_bytes + full.cache_bytes) / len(full.layers)
    n_layers = plan.model.n_layers
    places = []
    for ranks in used:
        stage = by_leader[ranks.start]
        n_more = n_layers if stage.free_bytes is None else int((stage.free_bytes - stage.needs_bytes) // layer_bytes)
        places.append(StagePlace(ranks, stage.layers, min(len(stage.layers) + max(n_more, 0), n_layers)))
    return places


def _times(measured: MeasuredPipeline) -> StageTimes:
    """Without a place for a range of layers that a stage's memory has no room for."""
    n, last = len(measured.stages), measured.stages[-1]
    root_s = measured.stages[0].beside_s  # also where it has no layers
    decode = np.stack(
        [
            _ranges(measured, stage, stage.layer_s, stage.beside_s * (number > 0))
            for number, stage in enumerate(measured.stages)
        ]
    )
    prefill = np.stack([_ranges(measured, stage, stage.chunk_layer_s, 0.0) for stage in measured.stages])
    for number, stage in enumerate(measured.stages):
        decode[number, :, -1] += last.head_s * (stage.layer_s / last.layer_s if last.place.layers else 1.0)
    *along, answer = measured.hops
    hop_s = sum(hop.seconds for hop in along) / max(len(along), 1)
    hops = np.triu(np.full((n, n), hop_s), 1)
    answers = np.full(n, answer.seconds + root_s)
    answers[0] = root_s
    return StageTimes(decode, prefill, hops, hops[0], answers)


def _ranges(measured: MeasuredPipeline, stage: StageCost, layer_s: float, beside_s: float) -> Seconds:
    """float64 [L + 1, L + 1]: with layers [first, behind the last)."""
    n_layers = measured.n_layers
    lengths = np.arange(n_layers + 1) - np.arange(n_layers + 1)[:, None]
    fits = (lengths > 0) & (lengths <= stage.place.most_layers)
    seconds: Seconds = np.where(fits, np.maximum(lengths, 1) * layer_s + beside_s, np.inf)
    return seconds
