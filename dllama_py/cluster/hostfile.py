"""The file that names the machines, as MPICH's launcher reads it: a line a machine, NAME or NAME:RANKS."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dllama_py.errors import InputError, UsageError


@dataclass(frozen=True, slots=True)
class Host:
    name: str
    n_ranks: int


def read_hostfile(path: Path) -> tuple[Host, ...]:
    """The machines in order. InputError names the line that the launcher would misread, and how to write it."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise InputError(f"{path} is no hostfile ({error.strerror}); expected a line NAME:RANKS a machine") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no hostfile (no text); expected a line NAME:RANKS a machine") from error
    hosts = [
        _host(line.split(), f"{path}, line {number}: {line.strip()!r}")
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.startswith("#")
    ]
    if not hosts:
        raise InputError(f"{path} names no machine; expected a line NAME:RANKS for each, the root first")
    names = [host.name for host in hosts]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path} names {twice} twice; give it one line, {twice}:RANKS")
    return tuple(hosts)


def ranks_to_start(hosts: Sequence[Host]) -> int:
    """The largest power of two of ranks that the machines together offer."""
    return 1 << (ranks_offered(hosts).bit_length() - 1)


def ranks_offered(hosts: Sequence[Host]) -> int:
    return sum(host.n_ranks for host in hosts)


def rank_hosts(hosts: Sequence[Host]) -> list[str]:
    """Of every rank that they offer: the name of its machine. The launcher fills one machine after the other."""
    return [host.name for host in hosts for _ in range(host.n_ranks)]


def hosts_used(hosts: Sequence[Host], n_ranks: int) -> list[Host]:
    """That so many ranks are started on."""
    names = rank_hosts(hosts)[:n_ranks]
    return [host for host in hosts if host.name in names]


def hosts_beyond(hosts: Sequence[Host], n_ranks: int) -> list[Host]:
    """That have a rank which is not among the first so many."""
    names = rank_hosts(hosts)[n_ranks:]
    return [host for host in hosts if host.name in names]


def refuse_too_many(wanted: int, hosts: Sequence[Host], path: Path) -> None:
    """UsageError if the machines offer fewer ranks: the launcher would put more on each than its line says."""
    offered = ranks_offered(hosts)
    if wanted > offered:
        each = ", ".join(f"{host.name}:{host.n_ranks}" for host in hosts[:8]) + ", ..." * (len(hosts) > 8)
        raise UsageError(
            f"--np {wanted}: {path} offers {offered} rank{'s' * (offered > 1)} ({each}); "
            f"take --np {ranks_to_start(hosts)}, or write more behind a machine's name there"
        )


def _host(words: Sequence[str], where: str) -> Host:
    if len(words) > 1 and words[1].startswith(("slots", "max_slots", "max-slots")):
        raise InputError(f"{where} is how Open MPI writes it; MPICH wants NAME:RANKS, as {words[0]}:1")
    if len(words) > 1:
        raise InputError(f"{where} has more than NAME:RANKS; put comments on lines of their own that begin with #")
    matched = re.fullmatch(r"([A-Za-z0-9_.-]+)(?::([1-9]\d*))?", words[0])
    if matched is None:
        raise InputError(f"{where} is no machine; expected NAME or NAME:RANKS, such as node2:1 or 192.168.1.11:1")
    return Host(matched[1], int(matched[2] or 1))
