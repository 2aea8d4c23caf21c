"""Messages from stage to stage: what each took, and what a node waited for them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dllama_py.profiling.timeline import RankTimeline, Span
from dllama_py.stamps import NS


@dataclass(frozen=True, slots=True)
class Hop:
    """One message, on the root's clock; `arrival` in JSON and tables counts from the beginning of its step."""

    sender: int
    receiver: int
    n_bytes: int
    sent_ns: int
    asked_ns: int
    arrived_ns: int

    @property
    def was_awaited(self) -> bool:
        """Else nobody knows how long it took: it was there when its receiver looked."""
        return self.asked_ns < self.arrived_ns

    @property
    def seconds(self) -> float:
        """From leaving to arrival."""
        return (self.arrived_ns - self.sent_ns) * NS

    @property
    def wait_s(self) -> float:
        """Of the receiver, until it left."""
        return max(self.sent_ns - self.asked_ns, 0) * NS

    @property
    def transfer_s(self) -> float:
        """Of the receiver, from then on."""
        return (self.arrived_ns - max(self.sent_ns, self.asked_ns)) * NS


@dataclass(frozen=True, slots=True)
class Pauses:
    """Of one node: until what it needs is on its way, and from then on."""

    wait_s: float
    transfer_s: float


NO_PAUSE = Pauses(0.0, 0.0)


def hops_of(ranks: Sequence[RankTimeline], span: Span, begun_ns: int) -> Iterator[Hop]:
    """The messages of a step, in the order of the stages. What lies before `begun_ns` does not count as waiting."""
    for number in (*range(1, len(ranks)), 0):
        for each in ranks[number].arrivals:
            if each.step == span.step + 1:
                sent_ns = min(each.sent_ns, each.arrived_ns)  # half a round trip is how well the clocks are known
                asked_ns = min(max(each.asked_ns, begun_ns), each.arrived_ns)
                yield Hop(each.source, number, each.n_bytes, sent_ns, asked_ns, each.arrived_ns)


def pauses_of(
    ranks: Sequence[RankTimeline], span: Span, stages: Sequence[range], hops: Sequence[Hop], begun_ns: int
) -> list[Pauses]:
    """What every node waits outside of its programs. Who shares layers with others is told by the first of them."""
    own = {hop.receiver: Pauses(hop.wait_s, hop.transfer_s) for hop in hops}
    found = [own.get(rank, NO_PAUSE) for rank in range(len(ranks))]
    if len(stages) > 1:
        for stage in stages:
            for rank in (other for other in stage[1:] if ranks[other].runs_of(span)):
                found[rank] = _told(ranks[stage.start], ranks[rank], span, begun_ns)
    return found


def _told(leader: RankTimeline, rank: RankTimeline, span: Span, begun_ns: int) -> Pauses:
    """From its last step on: until its leader begins, then until it begins itself."""
    began = int(rank.runs_of(span)[0].stamps.min())
    free_ns = max(int(rank.steps[span.step - 1][-1].stamps.max()), begun_ns) if span.step else begun_ns
    told_ns = min(max(int(leader.runs_of(span)[0].stamps.min()), free_ns), began)
    return Pauses(max(told_ns - free_ns, 0) * NS, max(began - max(told_ns, free_ns), 0) * NS)
