"""What each stage of a pipeline and each hop between them takes of a token, from stamps.

A token's time is the sum of both: a stage has it from the arrival of a message until the next one leaves, the first
stage from its program's beginning on and again from the last answer to the next token.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

from dllama_py.cost_model import Link
from dllama_py.profiling.analysis import StepTimes, first_stamp, program_s
from dllama_py.profiling.hop_times import Hop
from dllama_py.profiling.timeline import DECODE, RankTimeline, Span
from dllama_py.stamps import NS, Role, Run
from dllama_py.transport.hosts import Host

HEAD_BEGINS = "copy_rows"  # the rows whose logits are wanted


@dataclass(frozen=True, slots=True)
class StagePlace:
    """`most_layers`: that its memory has room for."""

    ranks: range
    layers: range
    most_layers: int


@dataclass(frozen=True, slots=True)
class StageCost:
    """Of a token, on average: `layers_s`, `sums_s` of it in the all-reduces of ranks that share them, on the last stage
    the head's `head_s`, and `beside_s`, all else that is done between a message and the next. `chunk_s`: of the layers
    for the largest chunk of the prompt.
    """

    place: StagePlace
    host: Host
    layers_s: float
    sums_s: float
    head_s: float
    beside_s: float
    chunk_s: float

    @property
    def seconds(self) -> float:
        return self.layers_s + self.head_s + self.beside_s

    @property
    def layer_s(self) -> float:
        """Infinite for one that has none, since nobody knows."""
        return self.layers_s / len(self.place.layers) if self.place.layers else float("inf")

    @property
    def alone_layer_s(self) -> float:
        """Of one of its ranks alone."""
        if not self.place.layers:
            return float("inf")
        return (self.layers_s - self.sums_s) * len(self.place.ranks) / len(self.place.layers)

    @property
    def chunk_layer_s(self) -> float:
        return self.chunk_s / len(self.place.layers) if self.place.layers else float("inf")


@dataclass(frozen=True, slots=True)
class HopCost:
    """Of the messages of decoded tokens from one rank to another: mean bytes, times of those that were awaited, when
    they came, counted from the beginning of their step; `link`: what was measured of it before.
    """

    sender: int
    receiver: int
    n_bytes: float
    seconds: float
    longest_s: float
    arrival_s: float
    link: Link

    @property
    def wire_s(self) -> float:
        """That the bytes need."""
        return self.n_bytes / self.link.bytes_per_s

    @property
    def needed_s(self) -> float:
        """By the link's own figures."""
        return self.link.latency_s + self.wire_s


@dataclass(frozen=True, slots=True)
class _Token:
    """A decode step, from its beginning to that of the next."""

    span: Span
    step: StepTimes
    begun_ns: int
    next_ns: int


def stage_costs(
    ranks: Sequence[RankTimeline], spans: Sequence[Span], steps: Sequence[StepTimes], places: Sequence[StagePlace]
) -> tuple[StageCost, ...]:
    """Of every stage. `steps`: those of `spans`, of which the last tells nothing, as none follows it."""
    begun = [first_stamp(ranks, span) for span in spans]
    following = zip(spans, steps, begun, begun[1:], strict=False)
    tokens = [_Token(*facts) for facts in following if facts[0].phase == DECODE]
    widest = max(span.n_rows for span in spans)
    chunks = [span for span in spans if span.n_rows == widest]
    return tuple(_stage_cost(ranks[place.ranks.start], place, tokens, chunks) for place in places)


def _stage_cost(leader: RankTimeline, place: StagePlace, tokens: Sequence[_Token], chunks: Sequence[Span]) -> StageCost:
    first = place.ranks.start
    layers_s, head_s = map(fmean, zip(*(_layers_and_head(leader, token.span) for token in tokens), strict=True))
    held_s = fmean(_held_ns(first, token) * NS for token in tokens)
    sums_s = fmean(_sums_s(place, token.step) for token in tokens)
    chunk_s = fmean(_layers_and_head(leader, chunk)[0] for chunk in chunks)
    return StageCost(place, leader.host, layers_s, sums_s, head_s, max(held_s - layers_s - head_s, 0.0), chunk_s)


def _sums_s(place: StagePlace, step: StepTimes) -> float:
    pauses = [each.pauses(place.ranks.start) for each in step.collectives if each.ranks == place.ranks]
    return sum(each.wait_s + each.transfer_s for each in pauses)


def hop_costs(steps: Sequence[tuple[StepTimes, int]], links: Sequence[Sequence[Link]]) -> tuple[HopCost, ...]:
    """Of decode steps, each with the stamp of its beginning, in the order of the stages; `links` [rank][other]."""
    same: dict[tuple[int, int], list[tuple[Hop, int]]] = {}
    for step, begun_ns in steps:
        for hop in step.hops:
            same.setdefault((hop.sender, hop.receiver), []).append((hop, begun_ns))
    return tuple(_hop_cost(found, links[sender][receiver]) for (sender, receiver), found in same.items())


def _hop_cost(found: Sequence[tuple[Hop, int]], link: Link) -> HopCost:
    awaited = [hop.seconds for hop, _ in found if hop.was_awaited] or [0.0]
    first = found[0][0]
    return HopCost(
        first.sender,
        first.receiver,
        fmean(hop.n_bytes for hop, _ in found),
        fmean(awaited),
        max(awaited),
        fmean((hop.arrived_ns - begun_ns) * NS for hop, begun_ns in found),
        link,
    )


def _held_ns(leader: int, token: _Token) -> int:
    """How long a stage has a step in its hands."""
    came_ns = next((hop.arrived_ns for hop in token.step.hops if hop.receiver == leader), token.begun_ns)
    left_ns = next((hop.sent_ns for hop in token.step.hops if hop.sender == leader), came_ns)
    return left_ns - token.begun_ns + token.next_ns - came_ns if leader == 0 else left_ns - came_ns


def _layers_and_head(leader: RankTimeline, span: Span) -> tuple[float, float]:
    layers_s = head_s = 0.0
    for run in leader.runs_of(span):
        works = leader.works(run)
        if works[0].role not in (Role.ARRIVING, Role.LEAVING):
            own_s = _head_s([work.kernel for work in works], run)
            head_s += own_s
            layers_s += program_s(run) - own_s
    return layers_s, head_s


def _head_s(kernels: Sequence[str], run: Run) -> float:
    """0 where the program has none."""
    if HEAD_BEGINS not in kernels:
        return 0.0
    return float(run.stamps.max() - run.stamps[:, kernels.index(HEAD_BEGINS), 0].min()) * NS
