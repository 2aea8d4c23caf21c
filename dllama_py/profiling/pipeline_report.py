"""A profile of stages one behind the other: what it tells beside the times, and the bars of its picture."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dllama_py.cost_model import Link
from dllama_py.profiling.analysis import first_stamp
from dllama_py.profiling.picture import Bar
from dllama_py.profiling.pipeline_advice import MeasuredPipeline, OtherSplit, PipelineAdvice, advise_pipeline
from dllama_py.profiling.report import Session, Times, facts, times_of
from dllama_py.profiling.stage_costs import HopCost, StageCost, StagePlace, hop_costs, stage_costs
from dllama_py.profiling.timeline import DECODE

FindSplit = Callable[[MeasuredPipeline], OtherSplit | None]


@dataclass(frozen=True, slots=True)
class PipelineFacts:
    """`links`: [rank][other]; `find_split`: the best one by what was measured, if it is not the present one."""

    places: Sequence[StagePlace]
    links: Sequence[Sequence[Link]]
    activations: str
    find_split: FindSplit


@dataclass(frozen=True, slots=True)
class PipelineReport:
    times: Times
    measured: MeasuredPipeline
    advice: PipelineAdvice

    def as_json(self) -> dict[str, Any]:
        """Keys as documented in docs/profiling.md."""
        return facts(self.times) | {
            "exchange": f"stages, {self.measured.activations}",
            "stages": [_stage(stage) for stage in self.measured.stages],
            "hops": [_hop(hop) for hop in self.measured.hops],
            "advice": asdict(self.advice),
        }

    def bars(self, beside: Sequence[dict[str, Any]]) -> list[Bar]:
        """This run, tokens of one node beside it, and forecasts: the best machine alone, a better split."""
        measured, advice = self.measured, self.advice
        here = ",".join(str(len(stage.place.layers)) for stage in measured.stages)
        computed_s = sum(stage.layers_s + stage.head_s for stage in measured.stages)
        beside_s = sum(stage.beside_s for stage in measured.stages)
        found = [Bar(f"layers {here}", computed_s, 0.0, measured.hops_s, beside_s, False)]
        found += [Bar("1 node", run["token_ms"] / 1000, 0.0, 0.0, 0.0, False) for run in beside if run["nodes"] == 1]
        if measured.one_node_s is None:
            found.append(Bar("best machine alone", advice.single_s, 0.0, 0.0, 0.0, True))
        if advice.split is not None:
            label = f"layers {','.join(map(str, advice.split.counts))}"
            found.append(Bar(label, advice.split.token_s, 0.0, 0.0, 0.0, True))
        return found


def pipeline_report(session: Session, pipeline: PipelineFacts) -> PipelineReport:
    """What the stamps amount to, and what would be faster."""
    times = times_of(session)
    stages = stage_costs(session.ranks, session.spans, times.steps, pipeline.places)
    begun = [
        (step, first_stamp(session.ranks, span))
        for step, span in zip(times.steps[:-1], session.spans[:-1], strict=True)
        if step.phase == DECODE
    ]
    measured = MeasuredPipeline(
        sum(len(place.layers) for place in pipeline.places),
        pipeline.activations,
        times.token_s,
        stages,
        hop_costs(begun, pipeline.links),
        session.one_node_s,
    )
    return PipelineReport(times, measured, advise_pipeline(measured, pipeline.find_split(measured)))


def _stage(stage: StageCost) -> dict[str, Any]:
    place = stage.place
    return {
        "ranks": list(place.ranks),
        "host": stage.host.name,
        "layers": [place.layers.start, place.layers[-1]] if place.layers else [],
        "most_layers": place.most_layers,
        "layers_ms": 1000 * stage.layers_s,
        "head_ms": 1000 * stage.head_s,
        "beside_ms": 1000 * stage.beside_s,
        "chunk_ms": 1000 * stage.chunk_s,
    }


def _hop(hop: HopCost) -> dict[str, Any]:
    return {
        "from": hop.sender,
        "to": hop.receiver,
        "bytes": hop.n_bytes,
        "ms": 1000 * hop.seconds,
        "longest_ms": 1000 * hop.longest_s,
        "arrival_ms": 1000 * hop.arrival_s,
        "link_latency_ms": 1000 * hop.link.latency_s,
        "link_bytes_per_s": hop.link.bytes_per_s,
    }
