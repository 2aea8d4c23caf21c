"""A trace that Perfetto (ui.perfetto.dev) and chrome://tracing open: a process a rank, a track a thread.

Chrome's trace event format: complete events ("X") with microseconds. A track more for each rank has its all-reduces,
one more the messages to it from another stage, both cut in waiting and transfer; a process more has the steps.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from dllama_py.profiling.analysis import StepTimes, first_stamp
from dllama_py.profiling.hop_times import Pauses
from dllama_py.profiling.timeline import RankTimeline, Span
from dllama_py.stamps import Run, Work

Event = dict[str, Any]
US = 1e-3  # of a nanosecond


def trace(ranks: Sequence[RankTimeline], spans: Sequence[Span], steps: Sequence[StepTimes]) -> Event:
    """To be written as JSON; times count from the first step's beginning."""
    zero = first_stamp(ranks, spans[0])
    events: list[Event] = [_name("process_name", len(ranks), "steps")]
    n_threads = [rank.n_threads for rank in ranks]
    has_hops = any(step.hops for step in steps)
    for number, rank in enumerate(ranks):
        events.append(_name("process_name", number, f"rank {number} on {rank.host}"))
        names = [*(f"thread {thread}" for thread in range(rank.n_threads)), "all-reduces", *["hops"] * has_hops]
        events += [_name("thread_name", number, name, track) for track, name in enumerate(names)]
        for span in spans:
            for run in rank.runs_of(span):
                events += _run(number, rank.works(run), run, zero)
    for number, (span, step) in enumerate(zip(spans, steps, strict=True)):
        began = (first_stamp(ranks, span) - zero) * US
        title = f"{step.phase} {number}"
        events.append(_event(title, step.phase, (len(ranks), 0), began, step.seconds * 1e6, {"rows": step.n_rows}))
        events += _collectives(step, n_threads, zero)
        events += _hops(step, n_threads, zero)
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def _run(rank: int, works: Sequence[Work], run: Run, zero: int) -> Iterator[Event]:
    for thread, stamps in enumerate(((run.stamps - zero) * US).tolist()):
        for work, (began, ended) in zip(works, stamps, strict=True):
            facts = {"bytes": work.bytes_read(run.counts)} if work.part_bytes else {}
            yield _event(work.kernel, work.role, (rank, thread), began, ended - began, facts)


def _collectives(step: StepTimes, n_threads: Sequence[int], zero: int) -> Iterator[Event]:
    for each in step.collectives:
        for rank, arrived, sent_bytes in zip(each.ranks, each.arrived_ns, each.sent_bytes, strict=True):
            facts = {"number": each.number, "sent_bytes": sent_bytes, "order": each.order, "last": each.last}
            pauses = each.pauses(rank)
            yield from _pauses("exchange", (rank, n_threads[rank]), (arrived - zero) * US, pauses, facts)


def _hops(step: StepTimes, n_threads: Sequence[int], zero: int) -> Iterator[Event]:
    for hop in step.hops:
        facts = {"from": hop.sender, "bytes": hop.n_bytes, "us": round(1e6 * hop.seconds, 3)}
        pauses = Pauses(hop.wait_s, hop.transfer_s)
        yield from _pauses(
            "hop", (hop.receiver, n_threads[hop.receiver] + 1), (hop.asked_ns - zero) * US, pauses, facts
        )


def _pauses(category: str, track: tuple[int, int], began: float, pauses: Pauses, facts: Event) -> Iterator[Event]:
    wait_us = pauses.wait_s * 1e6
    yield _event("wait", category, track, began, wait_us, facts)
    yield _event("transfer", category, track, began + wait_us, pauses.transfer_s * 1e6, facts)


def _event(name: str, category: str, track: tuple[int, int], began: float, duration: float, facts: Event) -> Event:
    """`began`, `duration`: microseconds."""
    where = {"pid": track[0], "tid": track[1]}
    times = {"ts": round(began, 3), "dur": round(duration, 3)}
    return {"name": name, "cat": str(category), "ph": "X", **where, **times, "args": facts}


def _name(kind: str, process: int, name: str, track: int = 0) -> Event:
    return {"name": kind, "ph": "M", "pid": process, "tid": track, "args": {"name": name}}
