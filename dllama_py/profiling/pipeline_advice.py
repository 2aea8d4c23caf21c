"""One sentence on what to change about a pipeline, from what its stages and hops take.

A single answer passes all stages, so what a pipeline can gain for it is the speed of the machines that have most
layers, or room. A long prompt, and several answers at once, go as fast as the slowest stage.
"""

from dataclasses import dataclass

from dllama_py.profiling.advice import BETTER, LINK_MATTERS, UNEXPLAINED, WORTH_IT, in_ms
from dllama_py.profiling.stage_costs import HopCost, StageCost
from dllama_py.transport.hosts import Host


@dataclass(frozen=True, slots=True)
class OtherSplit:
    """Layers of each stage, and what a token and the slowest stage's part of a chunk would take with them."""

    counts: tuple[int, ...]
    token_s: float
    slowest_chunk_s: float


@dataclass(frozen=True, slots=True)
class PipelineAdvice:
    """`limit`: computing, waiting, latency or rate. `single_s`, `single_chunk_s`: of a token and of a chunk on the best
    single machine, whether or not it has the room; `has_room`: one has. `gain`: of one answer over it, `prompt_gain` of
    a long prompt; `split`: a better one, if there is one.
    """

    sentence: str
    limit: str
    slowest_stage: int
    single_s: float
    gain: float
    prompt_gain: float
    has_room: bool
    worth_it: bool
    split: OtherSplit | None


@dataclass(frozen=True, slots=True)
class MeasuredPipeline:
    """A pipeline that decodes. `one_node_s`: a token on one node, if that was measured."""

    n_layers: int
    activations: str
    token_s: float
    stages: tuple[StageCost, ...]
    hops: tuple[HopCost, ...]
    one_node_s: float | None = None

    @property
    def is_one_machine(self) -> bool:
        return len({stage.host for stage in self.stages}) == 1

    @property
    def hops_s(self) -> float:
        """Of a token."""
        return sum(hop.seconds for hop in self.hops)

    @property
    def slowest_chunk_s(self) -> float:
        return max(stage.chunk_s for stage in self.stages)


def advise_pipeline(measured: MeasuredPipeline, other: OtherSplit | None) -> PipelineAdvice:
    """What holds this pipeline back, what would be faster, and whether it is worth it. `other`: the best split by the
    measured times, if it is not the present one."""
    slowest = max(range(len(measured.stages)), key=lambda number: measured.stages[number].seconds)
    limit, on_limit = _limit(measured)
    split = other if other is not None and _is_better(measured, other) else None
    single_s = measured.one_node_s or min(alone_s(measured, stage) for stage in measured.stages)
    single_chunk_s = _single_chunk_s(measured)
    gain = single_s / measured.token_s - 1
    prompt_gain = single_chunk_s / measured.slowest_chunk_s - 1 if measured.slowest_chunk_s else 0.0
    has_room = any(stage.place.most_layers >= measured.n_layers for stage in measured.stages)
    sentences = [
        _on_slowest(measured, slowest) if measured.hops else _on_all(measured),
        on_limit,
        *([_on_split(measured, split)] if split else []),
        *([_on_worth(measured, single_s, gain, prompt_gain, has_room)] if measured.hops else []),
    ]
    sentence = "; ".join(sentences)
    worth_it = not measured.is_one_machine and (max(gain, prompt_gain) >= WORTH_IT or not has_room)
    sentence = f"{sentence[0].upper()}{sentence[1:]}."
    return PipelineAdvice(sentence, limit, slowest, single_s, gain, prompt_gain, has_room, worth_it, split)


def alone_s(measured: MeasuredPipeline, stage: StageCost) -> float:
    """A token on the machine of a stage, were it to have all layers; the head as much slower as its layers are."""
    last = measured.stages[-1]
    head_s = last.head_s * len(last.place.ranks)
    if last.place.layers:
        head_s *= stage.alone_layer_s / last.alone_layer_s
    return measured.n_layers * stage.alone_layer_s + head_s + measured.stages[0].beside_s


def _single_chunk_s(measured: MeasuredPipeline) -> float:
    """On the best machine; stages of one machine compute chunks at once, so their speeds add up there."""
    speeds: dict[Host, float] = {}
    for stage in measured.stages:
        if stage.chunk_s:
            one_s = stage.chunk_layer_s * len(stage.place.ranks)
            speeds[stage.host] = speeds.get(stage.host, 0.0) + 1 / one_s
    return measured.n_layers / max(speeds.values()) if speeds else 0.0


def _limit(measured: MeasuredPipeline) -> tuple[str, str]:
    hops, hops_s, token_s = measured.hops, measured.hops_s, measured.token_s
    n_hops, told = len(hops), f"{in_ms(hops_s)} of {in_ms(token_s)} a token"
    if not hops:
        return "computing", "nothing is exchanged"
    if hops_s < LINK_MATTERS * token_s:
        return "computing", f"computing is the limit: the {n_hops} hops take {told}"
    latency_s, wire_s = sum(hop.link.latency_s for hop in hops), sum(hop.wire_s for hop in hops)
    if hops_s > UNEXPLAINED * (latency_s + wire_s):
        needed = f"the {n_hops} hops take {told}, where the links need {in_ms(latency_s + wire_s)}"
        return "waiting", f"messages come late to busy processors: {needed}; end other programs, use fewer threads"
    parts = f"{told} are hops, by the links' own figures {in_ms(latency_s)} of delay and {in_ms(wire_s)} of bytes"
    slow = max(hops, key=lambda hop: hop.needed_s)
    between = f"between rank {slow.sender} and rank {slow.receiver}"
    if latency_s >= wire_s:
        return "latency", f"the link's latency ({slow.link.latency_s * 1e6:.0f} us {between}) is the limit: {parts}"
    less = "; --activations int8 makes the rows four times smaller" if measured.activations == "f32" else ""
    return "rate", f"the link's rate ({slow.link.bytes_per_s / 1e6:.0f} MB/s {between}) is the limit: {parts}{less}"


def _is_better(measured: MeasuredPipeline, other: OtherSplit) -> bool:
    token_gain = measured.token_s / other.token_s - 1
    chunk_gain = measured.slowest_chunk_s / other.slowest_chunk_s - 1 if other.slowest_chunk_s else 0.0
    return token_gain >= BETTER or (chunk_gain >= BETTER and token_gain >= -BETTER)


def _on_slowest(measured: MeasuredPipeline, number: int) -> str:
    stage = measured.stages[number]
    ranks, layers = stage.place.ranks, stage.place.layers
    who = f"rank {ranks.start}" if len(ranks) == 1 else f"ranks {ranks.start} to {ranks[-1]}"
    what = f", layers {layers.start} to {layers[-1]}" if layers else ""
    return (
        f"stage {number} ({who} on {stage.host}{what}) is the slowest: it has a token for "
        f"{in_ms(stage.seconds)} of {in_ms(measured.token_s)}"
    )


def _on_all(measured: MeasuredPipeline) -> str:
    host, n_layers = measured.stages[0].host, measured.n_layers
    return f"one stage, on {host}, has all {n_layers} layers: {1 / measured.token_s:.1f} tok/s"


def _on_split(measured: MeasuredPipeline, other: OtherSplit) -> str:
    gain = measured.token_s / other.token_s - 1
    how = f"--split {','.join(map(str, other.counts))} would give about {1 / other.token_s:.1f} tok/s ({gain:+.0%})"
    if measured.slowest_chunk_s and other.slowest_chunk_s:
        how += f" and long prompts about {measured.slowest_chunk_s / other.slowest_chunk_s:.2f} times as fast"
    return how


def _on_worth(measured: MeasuredPipeline, single_s: float, gain: float, prompt_gain: float, has_room: bool) -> str:
    about = "" if measured.one_node_s else "about "
    here = f"{1 / measured.token_s:.1f} tok/s in {len(measured.stages)} stages"
    if measured.is_one_machine:
        return f"{here}, {about}{1 / single_s:.1f} in one ({gain:+.0%}): not worth it, all nodes are one machine here"
    if not has_room:
        return f"{here}; no machine has room for all layers: worth it"
    rates = f"{here} against {about}{1 / single_s:.1f} on the best machine alone ({gain:+.0%})"
    prompts = f"long prompts about {1 + prompt_gain:.1f} times as fast"
    if gain >= WORTH_IT:
        return f"{rates}, {prompts}: worth it"
    if prompt_gain >= WORTH_IT:
        return f"{rates}, {prompts}: worth it for prompts and for several answers at once, not for one"
    return f"{rates}, {prompts}: not worth it below {WORTH_IT:+.0%}"
