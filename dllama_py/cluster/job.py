"""The command that starts a job: MPICH's launcher, what it and the network layers need to know, the ranks' program.

Written into a script, so that a user sees it, keeps it and changes it; started from there.
"""

import os
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dllama_py.cluster.network import Network, rank_environment
from dllama_py.errors import ClusterError
from dllama_py.transport.failure import INTERRUPTED

TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
PASSED_ON = {
    0,
    2,
    INTERRUPTED,
}  # done, wrong usage, interrupted; any other code of mpirun means that the cluster failed


@dataclass(frozen=True, slots=True)
class Placement:
    """Where and how the ranks run. None, 0: as the launcher does by itself."""

    n_ranks: int
    hostfile: Path | None = None
    network: Network | None = None
    ports: tuple[int, int] | None = None  # first and last
    niceness: int = 0


def job_command(placement: Placement, arguments: Sequence[str]) -> list[str]:
    """The words of the command that runs `dllama ARGUMENTS` on all ranks. ClusterError if there is no launcher."""
    network, ports = placement.network, placement.ports
    words = [str(_mpirun()), "-np", str(placement.n_ranks)]
    if placement.hostfile is not None:
        words += ["-f", str(placement.hostfile.resolve())]
    words += _launcher_network(network)
    for name, value in {**_network_settings(network), **_port_settings(ports)}.items():
        words += ["-genv", name, value]
    if placement.niceness:
        words += ["nice", "-n", str(placement.niceness)]
    if network is not None and network.subnet is not None:
        program = ["dllama_py.cluster.network", network.subnet]
    else:
        program = ["dllama_py"]
    before = ["env", f"MPIEXEC_PORT_RANGE={ports[0]}:{ports[1]}"] if ports else []  # for the launcher's own connections
    return [*before, *words, sys.executable, "-m", *program, *arguments]


def write_script(path: Path, command: Sequence[str], title: str) -> None:
    """An executable shell script of that command, to which further options can be given."""
    part = path.with_name(f"{path.name}.{os.getpid()}")  # of this process, if two start the same model at once
    part.write_text(
        f"#!/bin/sh\n# Starts {title}; further options are passed on, such as --max-seq-len 8192\n"
        f'exec {shlex.join(command)} "$@"\n'
    )
    part.chmod(0o755)
    part.replace(path)


def exit_code(code: int) -> int:
    """Of a job, from the launcher's."""
    return code if code in PASSED_ON else ClusterError.exit_code


def job_environment() -> dict[str, str]:
    """Without the hub's token: the launcher hands all variables to all machines, and no rank needs it."""
    return {name: value for name, value in os.environ.items() if name not in TOKENS}


def run_job(command: Sequence[str]) -> int:
    """Run it to its end, whatever the user presses meanwhile; -> 0, 2, 3 or 130."""
    with subprocess.Popen(command, env=job_environment()) as job:
        while True:
            try:
                return exit_code(job.wait())
            except KeyboardInterrupt:  # the job got it too, and ends
                continue


def _mpirun() -> Path:
    """Of this environment: another MPI's launcher would start N worlds of one rank each."""
    found = Path(sys.executable).with_name("mpirun")
    if not found.exists():
        raise ClusterError(f"no mpirun beside {sys.executable}; pip install mpich brings one into this environment")
    return found


def _launcher_network(network: Network | None) -> list[str]:
    """What the launcher's own processes use. It hands -iface on to all machines, where the name may be another; so by
    subnet it is told the address they shall call back at.
    """
    if network is None:
        return []
    return ["-iface", network.interface] if network.address is None else ["-localhost", network.address]


def _network_settings(network: Network | None) -> dict[str, str]:
    """By subnet, each rank finds its own."""
    return rank_environment(network.interface) if network is not None and network.subnet is None else {}


def _port_settings(ports: tuple[int, int] | None) -> dict[str, str]:
    if ports is None:
        return {}
    first, last = map(str, ports)
    return {"UCX_TCP_PORT_RANGE": f"{first}-{last}", "FI_TCP_PORT_LOW_RANGE": first, "FI_TCP_PORT_HIGH_RANGE": last}
