"""Options of the modes that start jobs on several node counts: which counts, which machines."""

import argparse
from pathlib import Path

from dllama_py.cli import options
from dllama_py.cli.starting import check_hosts
from dllama_py.cluster.hostfile import ranks_offered, read_hostfile
from dllama_py.cluster.job import Placement
from dllama_py.cluster.network import find_network
from dllama_py.cluster.series import PATIENCE_S
from dllama_py.errors import UsageError


def add_placing_options(parser: options.Parser) -> None:
    """Where the jobs run. --nodes is the mode's own."""
    group = parser.add_argument_group("where the jobs run")
    group.add_argument("--hostfile", type=Path, metavar="FILE", help="the machines, this one first (default: this one)")
    group.add_argument("--iface", metavar="NAME|SUBNET", help="interface that the ranks use, as eth0 or 192.168.1.0/24")
    group.add_argument(
        "--timeout",
        type=options.positive,
        default=int(PATIENCE_S),
        metavar="S",
        help=f"seconds after which a job is ended (default: {PATIENCE_S:.0f})",
    )


def counts(text: str) -> list[int]:
    """'1,2,4' -> [1, 2, 4], as a type for argparse."""
    return [options.positive(part) for part in text.split(",")]


def placements(arguments: argparse.Namespace, node_counts: list[int], is_pipeline: bool = False) -> list[Placement]:
    """One for each count. UsageError for counts that are more than the hostfile offers, or no power of two where nodes
    share every layer.
    """
    network = None if arguments.iface is None else find_network(arguments.iface)
    odd = next((n for n in node_counts if n & (n - 1)), None)
    if odd is not None and not is_pipeline:
        raise UsageError(
            f"--nodes {odd}: a model is shared by 1, 2, 4, 8, ... nodes; any number goes with --topology pipeline"
        )
    if arguments.hostfile is not None and max(node_counts) > (
        offered := ranks_offered(read_hostfile(arguments.hostfile))
    ):
        raise UsageError(f"--nodes {max(node_counts)}: {arguments.hostfile} offers {offered}")
    check_hosts(arguments.hostfile, max(node_counts))
    return [Placement(n, arguments.hostfile, network) for n in node_counts]
