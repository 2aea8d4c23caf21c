"""The tables of a profile, for people."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dllama_py.profiling.analysis import BARRIERS
from dllama_py.profiling.pipeline_report import PipelineReport
from dllama_py.profiling.report import Session, Times, kernels, mean_times
from dllama_py.profiling.tensor_report import TensorReport
from dllama_py.profiling.timeline import DECODE

if TYPE_CHECKING:
    from rich.table import Table

LEAST_MS = 0.002  # of a step; kernels that take less are left out
SLOWEST = 8  # all-reduces that are shown
WIDTH = 110
TIMES = ("compute ms", "wait ms", "transfer ms", "between programs ms")


def show(found: TensorReport | PipelineReport) -> None:
    """All tables and the advice, on standard output."""
    from rich.console import Console

    console = Console(width=WIDTH, highlight=False)
    for table in _tables(found):
        if table.row_count:
            console.print(table)
    console.print(found.advice.sentence, markup=False)


def _tables(found: TensorReport | PipelineReport) -> Iterator["Table"]:
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
            yield _hops(found)
    yield _collectives(times)
    yield from _kernel_tables(times.session)


def _nodes(times: Times, head: str, last: Sequence[str]) -> "Table":
    title = f"Per token ({1000 * times.token_s:.2f} ms, {1 / times.token_s:.1f} tok/s)"
    table = _table(title, ["node", *TIMES, head])
    for rank, timeline in enumerate(times.session.ranks):
        mean = mean_times(times.decoding, rank)
        milliseconds = [mean.compute_s, mean.wait_s, mean.transfer_s, mean.outside_s]
        table.add_row(f"rank {rank} on {timeline.host}", *(f"{1000 * each:.2f}" for each in milliseconds), last[rank])
    return table


def _hops(found: PipelineReport) -> "Table":
    """Means over the decoded tokens."""
    columns = ["hop", "bytes", "took us", "longest us", "arrived after ms", "the link needs us"]
    table = _table("Hops of a token", columns)
    for hop in found.measured.hops:
        microseconds = [f"{1e6 * each:.0f}" for each in (hop.seconds, hop.longest_s)]
        table.add_row(
            f"rank {hop.sender} to rank {hop.receiver}",
            f"{hop.n_bytes:.0f}",
            *microseconds,
            f"{1000 * hop.arrival_s:.2f}",
            f"{1e6 * hop.needed_s:.0f}",
        )
    return table


def _collectives(times: Times) -> "Table":
    """The slowest all-reduces of the typical token."""
    step = times.steps[times.typical]
    table = _table(
        "Exchanges of one token, the slowest",
        ["number", "bytes sent by each", "took us", "waited us", "transfer us", "order of arrival"],
    )
    slowest = sorted(step.collectives, key=lambda each: min(each.arrived_ns) - max(each.through_ns))
    for each in sorted(slowest[:SLOWEST], key=lambda each: (each.ranks.start, each.number)):
        took_us = (max(each.through_ns) - min(each.arrived_ns)) / 1000
        table.add_row(
            str(each.number),
            " ".join(map(str, each.sent_bytes)),
            f"{took_us:.0f}",
            _microseconds(each.waits_s),
            _microseconds(each.transfers_s),
            " ".join(map(str, each.order)),
        )
    return table


def _kernel_tables(session: Session) -> Iterator["Table"]:
    """A table a phase, a row a kernel, the figures of all ranks that run it side by side."""
    rows = kernels(session)
    for phase in session.phases():
        names = dict.fromkeys(row["kernel"] for row in rows if row["phase"] == phase)
        table = _table(f"Kernels in {phase}", ["kernel", "calls", "ms a step", "GB/s", "of memory's", "GMAC/s"])
        for name in [*(name for name in names if name != BARRIERS), BARRIERS]:
            same = [row for row in rows if (row["phase"], row["kernel"]) == (phase, name)]
            is_worth_a_line = name == BARRIERS or max(row["ms"] for row in same) >= LEAST_MS
            if is_worth_a_line:
                table.add_row(*_kernel(name, same, phase == DECODE))
        yield table


def _kernel(name: str, same: Sequence[dict[str, Any]], is_decode: bool) -> list[str]:
    is_read, is_product = is_decode and any(row["gb_s"] for row in same), any(row["gmac_s"] for row in same)
    calls = dict.fromkeys(f"{row['calls']:.0f}" for row in same if row["calls"])
    return [
        name,
        " ".join(calls),
        " ".join(f"{row['ms']:.3f}" for row in same),
        " ".join(f"{row['gb_s']:.1f}" for row in same) if is_read else "",
        " ".join(f"{row['of_memory']:.0%}" for row in same if row["of_memory"]) if is_read else "",
        " ".join(f"{row['gmac_s']:.1f}" for row in same) if is_product else "",
    ]


def _table(title: str, columns: Sequence[str]) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD)
    for column in columns:
        is_text = column in ("node", "hop", "kernel", "order of arrival")
        table.add_column(column, justify="left" if is_text else "right", no_wrap=column != "bytes sent by each")
    return table


def _microseconds(seconds: Sequence[float]) -> str:
    return " ".join(f"{1e6 * each:.0f}" for each in seconds)
