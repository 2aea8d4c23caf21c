"""For users of distributed-llama: where its root and workers were started by hand, here is the mpirun line instead."""

import shlex
from collections.abc import Sequence

FLAG = "--workers"
MODE = "worker"


def asks_for_workers(mode: str, arguments: Sequence[str]) -> bool:
    return mode == MODE or any(word == FLAG or word.startswith(f"{FLAG}=") for word in arguments)


def equivalent(mode: str, arguments: Sequence[str]) -> str:
    """One line: the command that starts all ranks at once."""
    if mode == MODE:
        return (
            "there is no worker to start by hand: mpirun, called on the root, starts every rank over ssh: "
            "mpirun -hosts ROOT,THIS_HOST -np 2 python -m dllama_py inference --model PATH (2, 4, 8, ... hosts; "
            "no port is needed)"
        )
    hosts, kept = _split(arguments)
    command = shlex.join(["python", "-m", "dllama_py", mode, *kept])
    names = ",".join(["localhost", *hosts])
    few = "" if hosts else " (with the names of the other hosts)"
    return (
        f"mpirun starts the workers, {FLAG} does not exist: mpirun -hosts {names} -np {1 + len(hosts)} {command}{few}"
    )


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Host names of the workers, and the arguments without them."""
    hosts: list[str] = []
    kept: list[str] = []
    of_workers = False
    for word in arguments:
        if word == FLAG or word.startswith(f"{FLAG}="):
            of_workers = True
            hosts += [_host(word.partition("=")[2])] if "=" in word else []
        elif word.startswith("-"):
            of_workers = False
            kept.append(word)
        elif of_workers:
            hosts.append(_host(word))
        else:
            kept.append(word)
    return hosts, kept


def _host(address: str) -> str:
    """10.0.0.2:9998 -> 10.0.0.2; [fe80::1]:9998 -> fe80::1."""
    if address.startswith("["):
        return address[1:].partition("]")[0]
    return address.rpartition(":")[0] if address.count(":") == 1 else address
