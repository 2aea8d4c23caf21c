"""Which ranks share a machine: the one place that says so, for cores, memory, messages and plans.

Names are given by people and often equal, machine ids are copied with the card they are on. The number that a kernel
draws when it starts is neither (docs/decisions/0020).
"""

import hashlib
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
MACHINE_ID = Path("/etc/machine-id")
MOUNTS = Path("/proc/self/ns/mnt")  # a container has its own
HOST_ID = "DLLAMA_HOST_ID"

FACTS_BYTES = 256  # the length at which older versions send the name alone, so that they hear which version differs
MAX_NAME_BYTES = 200  # a digest needs 17
DIGEST_LETTERS = 16


@dataclass(frozen=True, slots=True)
class Host:
    """A machine. Two are the same if their kernel is (`id`); `name` is shown, `machine_id` only reported. `container`:
    which of those on a machine this rank is in; its ranks share limits that others have not.
    """

    id: str
    name: str = field(compare=False)
    machine_id: str = field(default="", compare=False)
    container: str = field(default="", compare=False)

    @classmethod
    def named(cls, name: str) -> "Host":
        """One that nothing but its name is known of."""
        return cls(name, name)

    def __str__(self) -> str:
        return self.name


def own_host(
    environment: Mapping[str, str] = os.environ, boot_id: Path = BOOT_ID, machine_id: Path = MACHINE_ID
) -> Host:
    """This one. DLLAMA_HOST_ID, whatever it is, stands for the kernel's number; a system without one has its name."""
    name = socket.gethostname()
    of_kernel = environment.get(HOST_ID) or _text(boot_id) or name
    return Host(_digest(of_kernel), name, _digest(_text(machine_id)), _digest(_link(MOUNTS)))


def encoded(host: Host) -> bytes:
    """In FACTS_BYTES."""
    name = host.name.encode()[:MAX_NAME_BYTES]
    return b"\0".join([name, *(each.encode() for each in (host.id, host.machine_id, host.container))]).ljust(
        FACTS_BYTES, b"\0"
    )


def decoded(facts: bytes) -> Host:
    """What `encoded` made; of an older version, the name alone."""
    name, of_kernel, *others = (part.decode(errors="replace") for part in (facts + bytes(4)).split(b"\0")[:4])
    return Host(of_kernel or name, name, *others)


def told_apart(hosts: Sequence[Host]) -> tuple[Host, ...]:
    """The same, by rank, with names that no two machines share: raspberrypi, raspberrypi (2)."""
    called: dict[str, list[str]] = {}
    shown = []
    for host in hosts:
        ids = called.setdefault(host.name, [])
        if host.id not in ids:
            ids.append(host.id)
        number = ids.index(host.id) + 1
        shown.append(replace(host, name=f"{host.name} ({number})") if number > 1 else host)
    return tuple(shown)


def sharing(hosts: Sequence[Host], rank: int) -> tuple[int, int]:
    """Ranks on the machine of this one, and how many of them are in its container."""
    beside = [host for host in hosts if host == hosts[rank]]
    return len(beside), sum(host.container == hosts[rank].container for host in beside)


def _digest(text: str) -> str:
    """Of always the same length; empty for nothing. Machine ids are not for other hosts to know."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LETTERS] if text else ""


def _link(path: Path) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
