"""How many of this machine's cores others use: what /proc/stat counts, without what this program used itself."""

import os
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dllama_py.cluster.system_text import system_text
from dllama_py.transport.comm import Comm

PROC = Path("/proc")
_FIELDS = (1, 2, 3, 6, 7, 8)  # of a line of /proc/stat: user, nice, system, irq, softirq, and what a hypervisor took
BUSY_CORES = 0.3  # from here on it is told; a desktop at rest has less
LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Since some moment: seconds on the clock, seconds that CPUs were busy, and of these the own process's."""

    clock_s: float
    busy_s: float
    own_s: float


def cpu_times(cpus: Collection[int] | None = None, proc: Path = PROC) -> CpuTimes:
    """Of these CPUs, or of all; where the system does not tell, only the own process is busy."""
    own = os.times()
    own_s = own.user + own.system
    busy_s = busy_seconds(system_text(proc / "stat"), cpus, os.sysconf("SC_CLK_TCK"))
    return CpuTimes(time.monotonic(), own_s if busy_s is None else busy_s, own_s)


def busy_seconds(stat: str, cpus: Collection[int] | None, ticks_per_s: int) -> float | None:
    """In /proc/stat; None where it is not of that form."""
    wanted = {"cpu"} if cpus is None else {f"cpu{cpu}" for cpu in cpus}
    lines = [line.split() for line in stat.splitlines()]
    found = [fields for fields in lines if fields and fields[0] in wanted and len(fields) > max(_FIELDS)]
    return sum(int(fields[i]) for fields in found for i in _FIELDS) / ticks_per_s if found else None


def competing_cores(before: CpuTimes, after: Sequence[CpuTimes]) -> float:
    """Cores that others used in between, on average. `after`: of each process of this program on the machine, with own
    seconds counted from `before`; its first entry's clock and busy seconds stand for the machine.
    """
    seconds = after[0].clock_s - before.clock_s
    busy_s = after[0].busy_s - before.busy_s - sum(each.own_s for each in after)
    return float(max(busy_s / seconds, 0.0)) if seconds > 0 else 0.0


def busy_now(cpus: Collection[int]) -> float:
    """Of these CPUs, how many others use, looked at for LOOK_S."""
    before = cpu_times(cpus)
    time.sleep(LOOK_S)
    after = cpu_times(cpus)
    return competing_cores(before, [CpuTimes(after.clock_s, after.busy_s, after.own_s - before.own_s)])


def busy_cores(comm: Comm, before: CpuTimes) -> list[float]:
    """All ranks together: at the root, of each rank's machine, the cores that others used since `before`."""
    after = cpu_times()
    own = np.array([after.clock_s, after.busy_s, after.own_s - before.own_s, before.clock_s, before.busy_s])
    every = np.zeros((comm.size, own.size))
    comm.gather(own, list(every) if comm.rank == 0 else None)
    if comm.rank:
        return []
    return [_of_machine([row for row, of in zip(every, comm.hosts, strict=True) if of == host]) for host in comm.hosts]


def _of_machine(rows: Sequence[np.ndarray]) -> float:
    first = rows[0]
    return competing_cores(CpuTimes(first[3], first[4], 0.0), [CpuTimes(*row[:3].tolist()) for row in rows])


def busy_line(hosts: Sequence[object], cores: Sequence[float]) -> str:
    """What is told of machines that others use too; empty where there are none."""
    busy = {str(host): used for host, used in zip(hosts, cores, strict=True) if used >= BUSY_CORES}
    if not busy:
        return ""
    told = ", ".join(f"{used:.1f} cores of {host}" for host, used in busy.items())
    return f"the machine is busy: other programs used {told}; speeds and forecasts are of what was left"
