"""How a job comes to its user: at a terminal a chat gets a front outside the job, for under mpirun no rank has one."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from dllama_py.cli.progress import shown_progress
from dllama_py.cluster.front import converse
from dllama_py.cluster.host_check import failing_hosts
from dllama_py.cluster.hostfile import hosts_used, read_hostfile
from dllama_py.cluster.job import exit_code, job_environment, run_job
from dllama_py.errors import ClusterError
from dllama_py.troubleshooting import with_row

ALREADY_ASKED = ("--prompt", "--json", "-h", "--help")  # a chat with one of these holds no conversation


def start(command: Sequence[str]) -> int:
    """Runs the command of a job (`job_command`) to its end -> 0, 2, 3 or 130."""
    sys.stdout.flush()
    if not (is_conversation(command) and has_terminal()):
        return run_job(command)
    with shown_progress() as on_progress:
        return exit_code(converse(command, job_environment(), on_progress))


def check_hosts(hostfile: Path | None, n_ranks: int) -> None:
    """ClusterError if a machine that so many ranks need cannot start one; a line for each is printed before."""
    if hostfile is None:
        return
    hosts = hosts_used(read_hostfile(hostfile), n_ranks)
    failing = failing_hosts([host.name for host in hosts])
    for line in failing[:-1]:
        print(f"error: {with_row(line)}", file=sys.stderr)
    if failing:
        raise ClusterError(failing[-1])


def start_in_place(command: Sequence[str]) -> int:
    """What a script starts: the same; without a conversation this process becomes the launcher."""
    if "-f" in command:
        check_hosts(Path(command[command.index("-f") + 1]), int(command[command.index("-np") + 1]))
    if is_conversation(command) and has_terminal():
        return start(command)
    sys.stdout.flush()
    os.execvpe(command[0], list(command), job_environment())


def is_conversation(command: Sequence[str]) -> bool:
    return "chat" in command and not any(word.startswith(ALREADY_ASKED) for word in command)


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
