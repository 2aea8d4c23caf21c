"""How much memory this process may still take: the host's free memory, the limits of its containers, its own limit."""

import resource
import sys
from dataclasses import dataclass
from pathlib import Path

from dllama_py.cluster.system_text import system_text

PROC = Path("/proc")
CGROUPS = Path("/sys/fs/cgroup")


@dataclass(frozen=True, slots=True)
class FreeMemory:
    """Bytes; None where the system does not say. All ranks of a machine share `host_bytes`, those in one container
    `container_bytes`, the limits of its control groups."""

    host_bytes: int | None
    container_bytes: int | None
    process_bytes: int | None

    @property
    def shared_bytes(self) -> int | None:
        """What this process could have if it were the only one."""
        known = [free for free in (self.host_bytes, self.container_bytes) if free is not None]
        return min(known, default=None)


def free_memory(proc: Path = PROC, cgroups: Path = CGROUPS) -> FreeMemory:
    """What is free now; what the kernel keeps only to avoid reading it again counts as free."""
    of_container = min(_cgroup_bytes(proc, cgroups), default=None)
    return FreeMemory(_host_bytes(proc), of_container, _address_space_bytes(proc))


def _host_bytes(proc: Path) -> int | None:
    facts = _facts(proc / "meminfo")
    return facts["MemAvailable"] * 1024 if "MemAvailable" in facts else None


def _cgroup_bytes(proc: Path, cgroups: Path) -> list[int]:
    """What every cgroup above this process still has, of version 1 or 2. Outside its own view a group is unseen."""
    found = []
    for line in system_text(proc / "self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root = cgroups / "memory" if controllers else cgroups
        names = ("memory.limit_in_bytes", "memory.usage_in_bytes") if controllers else ("memory.max", "memory.current")
        prefix = "total_" if controllers else ""
        group = Path(path)
        for folder in {root, *(root / part.relative_to("/") for part in (group, *group.parents))}:
            limit, used = (system_text(folder / name) for name in names)
            if limit.isdecimal() and used.isdecimal() and int(limit) < sys.maxsize // 4096 * 4096:
                kept = _facts(folder / "memory.stat")
                cached = kept.get(f"{prefix}inactive_file", 0) + kept.get(f"{prefix}active_file", 0)
                found.append(max(int(limit) - int(used) + cached, 0))
    return found


def _address_space_bytes(proc: Path) -> int | None:
    """What `ulimit -v` leaves."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return None
    return max(limit - _facts(proc / "self/status").get("VmSize", 0) * 1024, 0)


def _facts(path: Path) -> dict[str, int]:
    """'MemAvailable:  123 kB' or 'inactive_file 123' -> the number by its name."""
    facts = {}
    for line in system_text(path).splitlines():
        name, *values = line.replace(":", " ").split() or [""]
        if values and values[0].isdecimal():
            facts[name] = int(values[0])
    return facts
