# python -m pytest tests/cli/test_tables.py
"""Tables for people fit a terminal of 80 columns, name their units, and say in words what a figure is."""

from dllama_py.cli.bench_table import bench_table
from dllama_py.cli.profile_tables import span
from dllama_py.cli.running import memory_table
from dllama_py.cli.tables import table
from dllama_py.memory_plan import MemoryPlan, NodePlan
from dllama_py.model.memory import RankMemory
from dllama_py.transport.hosts import Host


def test_columns_are_as_wide_as_their_widest_entry() -> None:
    assert table(("a", "n", "text"), [("x", 10, "y"), ("xyz", 1, "")], also_left=(2,)) == (
        "a     n  text\nx    10  y\nxyz   1"
    )


def test_figures_have_units_and_a_meaning() -> None:
    figures = {
        "decode_tok_s": 77.345,
        "weight_bytes_per_token": 105_209_856,
        "roofline": 0.634,
        "private_bytes": [2e8, 1e8],
    }
    assert bench_table(figures | {"something_new": 1.5}).splitlines() == [
        "               measured  unit",
        "decode             77.3  tokens/s",
        "weights           105.2  MB/token  read by all nodes together",
        "roofline             63  %         decode, of what the memory's speed allows",
        "memory used     200 100  MB        by each node",
        "something new      1.50",
    ]


def test_ranks_that_differ_are_a_range() -> None:
    assert (span([], 1), span([5.4, 5.41], 1), span([5.51, 5.4, 5.43], 2)) == ("", "5.4", "5.40-5.51")


def test_the_memory_of_large_nodes_fits_a_terminal() -> None:
    needs = RankMemory(*[123_456_700_000] * len(RankMemory.__dataclass_fields__))
    nodes = tuple(NodePlan(rank, Host.named("raspberrypi.local"), needs, 123_456_700_000) for rank in range(8))
    text = memory_table(MemoryPlan(nodes, 4096, 8192))
    assert "memory in MB" in text
    assert max(map(len, text.splitlines())) <= 90
