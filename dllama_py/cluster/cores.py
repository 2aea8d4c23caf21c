"""How many threads a rank should use: physical performance cores, shared by the ranks of a host.

Kernels live on memory and vector units, which SMT siblings share and efficiency cores have less of: the first add
nothing, the second make the others wait at every barrier.

Some launchers bind ranks: Open MPI gives each of one or two ranks a single core unless told otherwise, and all threads
of the rank share it. That is undone here; where the user asked for it (other launchers do not bind by themselves), it
is left and told.
"""

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from dllama_py.cluster.busy import busy_now
from dllama_py.cluster.system_text import system_text
from dllama_py.errors import UsageError
from dllama_py.transport.environment import launched_rank

SYSTEM = Path("/sys/devices")
MOST_THREADS = 1024
ROUND_UP = 0.25  # three quarters of a core count as one
LAUNCHER_DISTANCE = 2  # the watcher, and the launcher's process on this host
BINDS_UNASKED = "OMPI_COMM_WORLD_RANK"  # Open MPI


@dataclass(frozen=True, slots=True)
class ThreadChoice:
    """A number of threads and the sentence that explains it; a warning where they have too few CPUs."""

    n_threads: int
    reason: str
    warning: str = ""


def choose_threads(wanted: int | None, ranks_on_host: int, ranks_in_container: int | None = None) -> ThreadChoice:
    """`wanted` (--nthreads) if given, else the usable cores divided among the ranks of the container, but no more than
    all cores divided among those of the host, and none for cores that other programs use; at least 1.
    `ranks_in_container`: all of the host if not given.

    A binding that the launcher made by itself is undone first, unless the wanted threads fit it. UsageError for a
    number that no host can have, which would take minutes to start.
    """
    if wanted is not None and wanted > MOST_THREADS:
        raise UsageError(f"{wanted} threads are wanted, at most {MOST_THREADS} can be; leave --nthreads out")
    warning = _loosen_binding(wanted)
    if wanted is not None:
        n_cpus = len(_allowed_cpus())
        how = "as asked for" if wanted <= n_cpus else f"as asked for, on only {n_cpus} CPUs"
        return ThreadChoice(wanted, how, warning)
    cores, how = usable_cores(SYSTEM)
    n_threads, shared = cores // (ranks_in_container or ranks_on_host), ""
    if ranks_on_host > 1:
        shared = f", shared by {ranks_on_host} ranks on this host"
        n_threads = min(n_threads, max(all_cores(SYSTEM), cores) // ranks_on_host)
    if ranks_on_host == 1:  # the ranks of a host would take each other, who are still starting, for others
        n_threads, how = beside_others(n_threads, how, _cores_in_use())
    return ThreadChoice(max(n_threads, 1), how + shared, warning)


def beside_others(n_cores: int, how: str, in_use: float) -> tuple[int, str]:
    """Threads beside others who use so many cores: one that waits for its turn holds up all at every barrier."""
    n_threads = max(n_cores - int(in_use + ROUND_UP), 1)
    return (n_threads, how) if n_threads == n_cores else (n_threads, f"{how}, {n_cores - n_threads} in use by others")


@cache
def _cores_in_use() -> float:
    """At the start of this process."""
    return busy_now(_allowed_cpus())


def _loosen_binding(wanted: int | None) -> str:
    """Takes all CPUs of the launcher where it binds unasked; a warning where a binding stays and is too tight."""
    allowed = _allowed_cpus()
    launcher = launcher_cpus() if launched_rank(os.environ) is not None else set()
    if not launcher > allowed or (wanted is not None and wanted <= len(allowed)):
        return ""
    if BINDS_UNASKED in os.environ:
        os.sched_setaffinity(0, launcher)
        return ""
    return (
        f"bound to {len(allowed)} of {len(launcher)} CPUs, on which all its threads run; "
        "start it without a binding (mpirun -bind-to none)"
    )


def launcher_cpus() -> set[int]:
    """The CPUs of the processes that started this rank, up to the launcher; nothing where the system does not tell."""
    found: set[int] = set()
    process = os.getppid()
    for _ in range(LAUNCHER_DISTANCE):
        try:
            found |= os.sched_getaffinity(process)
            stat = Path(f"/proc/{process}/stat").read_text()
        except (OSError, AttributeError):  # gone, or not Linux
            break
        process = int(stat.rpartition(")")[2].split()[1])
        if process <= 1:
            break
    return found


def usable_cores(system: Path) -> tuple[int, str]:
    """Physical performance cores this process may run on, and how they were counted. `system`: /sys/devices."""
    allowed = _allowed_cpus()
    fast = _performance_cpus(system, allowed)
    cores = {_core_of(system, cpu) for cpu in fast}
    notes = [f"{len(cores)} physical core{'s' * (len(cores) != 1)}"]
    if len(fast) < len(allowed):
        notes.append(f"{len(allowed) - len(fast)} efficiency CPUs left out")
    if len(cores) < len(fast):
        notes.append(f"{len(fast) - len(cores)} SMT siblings left out")
    quota = _cpu_quota()
    if quota is not None and quota < len(cores):
        return max(int(quota), 1), f"a container limit of {quota:g} CPUs"
    return len(cores), ", ".join(notes)


def all_cores(system: Path) -> int:
    """Physical performance cores of the machine, also those that this process may not use; 0 if it does not say."""
    online = system_text(system / "system/cpu/online")
    return len({_core_of(system, cpu) for cpu in _performance_cpus(system, _parse_list(online))}) if online else 0


def _allowed_cpus() -> set[int]:
    if hasattr(os, "sched_getaffinity"):  # Linux
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _performance_cpus(system: Path, allowed: set[int]) -> set[int]:
    """Intel hybrids list their performance CPUs; Arm gives each CPU a capacity."""
    listed = system_text(system / "cpu_core" / "cpus")
    if listed:
        return (_parse_list(listed) & allowed) or allowed
    capacities = {cpu: system_text(system / f"system/cpu/cpu{cpu}/cpu_capacity") for cpu in allowed}
    known = {cpu: int(text) for cpu, text in capacities.items() if text}
    if len(known) < len(allowed):
        return allowed
    return {cpu for cpu, capacity in known.items() if capacity == max(known.values())}


def _core_of(system: Path, cpu: int) -> str:
    """The CPUs of the same core as text, equal for siblings."""
    topology = system / f"system/cpu/cpu{cpu}/topology"
    return system_text(topology / "core_cpus_list") or system_text(topology / "thread_siblings_list") or str(cpu)


def _cpu_quota() -> float | None:
    """CPUs that a cgroup (version 2) allows, None for no limit."""
    fields = system_text(Path("/sys/fs/cgroup/cpu.max")).split()
    return int(fields[0]) / int(fields[1]) if len(fields) == 2 and fields[0] != "max" else None


def _parse_list(text: str) -> set[int]:
    """'0-3,8' -> {0, 1, 2, 3, 8}."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus |= set(range(int(first), int(last or first) + 1))
    return cpus
