"""How a job comes to its user: at a terminal a chat gets a front outside the job, for under mpirun no rank has one."""

import os
import sys
from collections.abc import Sequence

from dllama_py.cli.progress import shown_progress
from dllama_py.cluster.front import converse
from dllama_py.cluster.job import exit_code, job_environment, run_job

ALREADY_ASKED = ("--prompt", "--json", "-h", "--help")  # a chat with one of these holds no conversation


def start(command: Sequence[str]) -> int:
    """Runs the command of a job (`job_command`) to its end -> 0, 2, 3 or 130."""
    sys.stdout.flush()
    if not (is_conversation(command) and has_terminal()):
        return run_job(command)
    with shown_progress() as on_progress:
        return exit_code(converse(command, job_environment(), on_progress))


def start_in_place(command: Sequence[str]) -> int:
    """What a script starts: the same; without a conversation this process becomes the launcher."""
    if is_conversation(command) and has_terminal():
        return start(command)
    sys.stdout.flush()
    os.execvpe(command[0], list(command), job_environment())


def is_conversation(command: Sequence[str]) -> bool:
    return "chat" in command and not any(word.startswith(ALREADY_ASKED) for word in command)


def has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()
