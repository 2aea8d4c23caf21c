"""The tables of a profile, for people."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dllama_py.profiling.analysis import BARRIERS
from dllama_py.profiling.report import DECODE, Report, kernels, mean_times

if TYPE_CHECKING:
    from rich.table import Table

LEAST_MS = 0.002  # of a step; kernels that take less are left out
SLOWEST = 8  # all-reduces that are shown
WIDTH = 110


def show(found: Report) -> None:
    """All tables and the advice, on standard output."""
    from rich.console import Console

    console = Console(width=WIDTH, highlight=False)
    for table in (_nodes(found), _collectives(found), *_kernel_tables(found)):
        if table.row_count:
            console.print(table)
    console.print(found.advice.sentence, markup=False)


def _nodes(found: Report) -> "Table":
    title = f"Per token ({1000 * found.measured.token_s:.2f} ms, {1 / found.measured.token_s:.1f} tok/s)"
    table = _table(title, ["node", "compute ms", "wait ms", "transfer ms", "between programs ms", "last in"])
    for rank, node in enumerate(found.measured.nodes):
        times = mean_times(found.decoding, rank)
        milliseconds = [times.compute_s, times.wait_s, times.transfer_s, times.outside_s]
        last = f"{node.times_last} of {found.measured.n_collectives}"
        table.add_row(f"rank {rank} on {node.host}", *(f"{1000 * each:.2f}" for each in milliseconds), last)
    return table


def _collectives(found: Report) -> "Table":
    """The slowest all-reduces of the typical token."""
    step = found.steps[found.typical]
    table = _table(
        "All-reduces of one token, the slowest",
        ["number", "bytes sent by each", "took us", "waited us", "transfer us", "order of arrival"],
    )
    slowest = sorted(step.collectives, key=lambda each: min(each.arrived_ns) - max(each.through_ns))
    for each in sorted(slowest[:SLOWEST], key=lambda each: each.number):
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


def _kernel_tables(found: Report) -> list["Table"]:
    """A table a phase, a row a kernel, the figures of all ranks side by side."""
    rows = kernels(found.session)
    tables = []
    for phase in found.session.phases():
        names = dict.fromkeys(row["kernel"] for row in rows if row["phase"] == phase)
        table = _table(f"Kernels in {phase}", ["kernel", "calls", "ms a step", "GB/s", "of memory's", "GMAC/s"])
        for name in [*(name for name in names if name != BARRIERS), BARRIERS]:
            same = [row for row in rows if (row["phase"], row["kernel"]) == (phase, name)]
            is_worth_a_line = name == BARRIERS or max(row["ms"] for row in same) >= LEAST_MS
            if is_worth_a_line:
                table.add_row(*_kernel(name, same, phase == DECODE))
        tables.append(table)
    return tables


def _kernel(name: str, same: Sequence[dict[str, Any]], is_decode: bool) -> list[str]:
    is_read, is_product = is_decode and any(row["gb_s"] for row in same), any(row["gmac_s"] for row in same)
    return [
        name,
        f"{same[0]['calls']:.0f}" if same[0]["calls"] else "",
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
        is_text = column in ("node", "kernel", "order of arrival")
        table.add_column(column, justify="left" if is_text else "right", no_wrap=column != "bytes sent by each")
    return table


def _microseconds(seconds: Sequence[float]) -> str:
    return " ".join(f"{1e6 * each:.0f}" for each in seconds)
