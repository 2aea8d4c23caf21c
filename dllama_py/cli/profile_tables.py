"""The tables of a profile, for people. Where ranks differ, a cell has the least and the most of them: 5.43-5.51."""

from collections.abc import Iterator, Sequence
from typing import Any

from dllama_py.cli.tables import table
from dllama_py.profiling.analysis import BARRIERS
from dllama_py.profiling.pipeline_report import PipelineReport
from dllama_py.profiling.report import Session, Times, kernels, mean_times
from dllama_py.profiling.tensor_report import TensorReport
from dllama_py.profiling.timeline import DECODE

LEAST_MS = 0.002  # of a step; kernels that take less are left out
SLOWEST = 8  # all-reduces that are shown
NODE_HEADS = ("node, ms", "compute", "wait", "transfer", "between programs")
HOP_HEADS = ("hop", "bytes", "us", "longest us", "arrived after ms", "link needs us")
EXCHANGE_HEADS = ("number", "bytes sent", "us", "waited us", "transfer us", "order of arrival")
KERNEL_HEADS = ("kernel", "calls", "ms a step", "GB/s", "% of memory", "GMAC/s")


def show(found: TensorReport | PipelineReport) -> None:
    """All tables and the advice, on standard output."""
    for title, text in _tables(found):
        print(f"{title}\n\n{text}\n")
    print(found.advice.sentence, flush=True)


def _tables(found: TensorReport | PipelineReport) -> Iterator[tuple[str, str]]:
    """(title, table); what has no rows is left out."""
    match found:
        case TensorReport(times, measured):
            last = [f"{node.times_last} of {measured.n_collectives}" for node in measured.nodes]
            yield _nodes(times, "last in", last)
        case PipelineReport(times, measured):
            layers = ["idle"] * len(times.session.ranks)
            for stage in measured.stages:
                for rank in stage.place.ranks:
                    own = stage.place.layers
                    layers[rank] = f"{own.start} to {own[-1]}" if own else "none"
            yield _nodes(times, "layers", layers)
            if measured.hops:
                yield _hops(found)
    if exchanges := _exchanges(times):
        yield "Exchanges of one token, the slowest", table(EXCHANGE_HEADS, exchanges)
    yield from _kernel_tables(times.session)


def _nodes(times: Times, head: str, last: Sequence[str]) -> tuple[str, str]:
    rows = []
    for rank, timeline in enumerate(times.session.ranks):
        mean = mean_times(times.decoding, rank)
        milliseconds = [mean.compute_s, mean.wait_s, mean.transfer_s, mean.outside_s]
        rows.append((f"rank {rank} on {timeline.host}", *(f"{1000 * each:.2f}" for each in milliseconds), last[rank]))
    title = f"Per token ({1000 * times.token_s:.2f} ms, {1 / times.token_s:.1f} tokens/s)"
    return title, table((*NODE_HEADS, head), rows)


def _hops(found: PipelineReport) -> tuple[str, str]:
    """Means over the decoded tokens."""
    rows = [
        (
            f"rank {hop.sender} to rank {hop.receiver}",
            f"{hop.n_bytes:.0f}",
            f"{1e6 * hop.seconds:.0f}",
            f"{1e6 * hop.longest_s:.0f}",
            f"{1000 * hop.arrival_s:.2f}",
            f"{1e6 * hop.needed_s:.0f}",
        )
        for hop in found.measured.hops
    ]
    return "Hops of a token", table(HOP_HEADS, rows)


def _exchanges(times: Times) -> list[Sequence[str]]:
    """The slowest all-reduces of the typical token."""
    step = times.steps[times.typical]
    slowest = sorted(step.collectives, key=lambda each: min(each.arrived_ns) - max(each.through_ns))
    return [
        (
            str(each.number),
            span(each.sent_bytes, 0),
            f"{(max(each.through_ns) - min(each.arrived_ns)) / 1000:.0f}",
            span([1e6 * wait_s for wait_s in each.waits_s], 0),
            span([1e6 * transfer_s for transfer_s in each.transfers_s], 0),
            " ".join(map(str, each.order)),
        )
        for each in sorted(slowest[:SLOWEST], key=lambda each: (each.ranks.start, each.number))
    ]


def _kernel_tables(session: Session) -> Iterator[tuple[str, str]]:
    """A table a phase, a row a kernel."""
    found = kernels(session)
    for phase in session.phases():
        names = dict.fromkeys(row["kernel"] for row in found if row["phase"] == phase)
        rows = []
        for name in [*(name for name in names if name != BARRIERS), BARRIERS]:
            same = [row for row in found if (row["phase"], row["kernel"]) == (phase, name)]
            if name == BARRIERS or max(row["ms"] for row in same) >= LEAST_MS:
                rows.append(_kernel(name, same, phase == DECODE))
        yield f"Kernels in {phase}", table(KERNEL_HEADS, rows)


def _kernel(name: str, same: Sequence[dict[str, Any]], is_decode: bool) -> list[str]:
    is_read, is_product = is_decode and any(row["gb_s"] for row in same), any(row["gmac_s"] for row in same)
    return [
        name,
        span([row["calls"] for row in same if row["calls"]], 0),
        span([row["ms"] for row in same], 3),
        span([row["gb_s"] for row in same], 1) if is_read else "",
        span([100 * row["of_memory"] for row in same if row["of_memory"]], 0) if is_read else "",
        span([row["gmac_s"] for row in same], 1) if is_product else "",
    ]


def span(values: Sequence[float], digits: int) -> str:
    """[5.4, 5.43, 5.5] with 1 digit -> '5.4-5.5'; one number where all are alike, '' without any."""
    if not values:
        return ""
    least, most = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return least if least == most else f"{least}-{most}"
