"""A look at each machine of a hostfile over ssh, all at once, before the launcher waits for them without a word.

The system's ssh is used as the launcher uses it, so the user's configuration (ports, names, keys) holds for both.
"""

import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from dllama_py.cluster.host_report import own_report

LIMIT_S = 9.0
CONNECT_S = 6
MOST_BYTES = 1 << 20  # of what is read of a machine's words
REACHED = "dllama-reached"
LAUNCHER = "HYDRA_LAUNCHER_EXEC"  # stands in for ssh, in the launcher too

REFUSALS = {  # what ssh says -> what it means, and what to type
    "Permission denied": "accepts no key of this user: `ssh-copy-id {0}` brings one there",
    "IDENTIFICATION HAS CHANGED": "has another host key than before: if that is right, `ssh-keygen -R {0}` forgets it",
    "Host key verification failed": "has a host key that is not known here: `ssh {0} true` asks once, answer yes",
    "Connection refused": "has no ssh server on that port: `sudo apt install openssh-server` on it installs one",
    "Could not resolve": "is no known name: write its address into the hostfile (`hostname -I` on it shows that)",
}
SILENT = "does not answer: is it on, and is the address right? `ping {0}` tells"


@dataclass(frozen=True, slots=True)
class _Heard:
    """Of one machine. `code` None: not done in time."""

    code: int | None
    output: str
    errors: str


def failing_hosts(names: Sequence[str], limit_s: float = LIMIT_S) -> list[str]:
    """A line for each machine on which no rank could start, within so many seconds; none for this machine itself."""
    until = time.monotonic() + limit_s
    program = os.environ.get(LAUNCHER) or shutil.which("ssh")
    with ThreadPoolExecutor(len(names)) as pool:
        away = [name for name, is_here in zip(names, pool.map(_is_here, names), strict=True) if not is_here]
        if not away:
            return []
        if program is None:
            return ["this machine has no ssh, which starts the others: `sudo apt install openssh-client` installs it"]
        wanted = own_report()
        found = pool.map(lambda name: _fault(_ask(program, name, until), wanted), away)
        return [f"{name} {fault.replace('{0}', name)}" for name, fault in zip(away, found, strict=True) if fault]


def _is_here(name: str) -> bool:
    """Whether the name is one of this machine, which the launcher needs no ssh for."""
    if name in ("localhost", socket.gethostname()):
        return True
    try:
        address = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_DGRAM)[0][4]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.bind((address[0], 0))  # only an own address can be bound
    except OSError:
        return False
    return True


def _ask(program: str, name: str, until: float) -> _Heard:
    options = ["-x", "-oBatchMode=yes", f"-oConnectTimeout={CONNECT_S}"]
    report = f"echo {REACHED}; exec {shlex.quote(sys.executable)} -m dllama_py.cluster.host_report"
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [program, *options, name, report],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        code: int | None = None
        with suppress(subprocess.TimeoutExpired):
            code = process.wait(max(until - time.monotonic(), 0))
        if code is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return _Heard(code, _end_of(output), _end_of(errors))


def _end_of(file: BinaryIO) -> str:
    """The last of what was written into it: a machine greets in any encoding, and at any length."""
    file.seek(max(file.seek(0, os.SEEK_END) - MOST_BYTES, 0))
    return file.read().decode(errors="replace")


def _fault(heard: _Heard, wanted: Mapping[str, str]) -> str:
    """What is wrong with a machine, '' if nothing is. One that is reached and slow is left to the job itself."""
    if REACHED not in heard.output:
        return _not_reached(heard)
    if heard.code is None:
        return ""
    try:
        report = json.loads(heard.output.rstrip().rpartition("\n")[2])
        told = {name: str(report.get(name, "missing")) for name in wanted}
    except (ValueError, AttributeError, RecursionError):
        return _no_report(heard)
    if told["MPI"] != wanted["MPI"]:
        return "has no MPI in its environment: `make install` in its clone brings it"
    other = next((name for name in wanted if told[name] != wanted[name]), None)
    if other is None:
        return ""
    return (
        f"has {other} {told[other]}, this machine has {wanted[other]}: `git pull` and `make install` in both clones "
        "make them equal"
    )


def _not_reached(heard: _Heard) -> str:
    for words, meaning in REFUSALS.items():
        if words in heard.errors:
            return meaning
    last = heard.errors.strip().rpartition("\n")[2]
    if heard.code is None or "timed out" in last or "unreachable" in last or "No route" in last:
        return SILENT
    reason = last or f"exit code {heard.code}"
    return f"cannot be reached by ssh ({reason}): `ssh {{0}} true` must work"


def _no_report(heard: _Heard) -> str:
    if "No module named" in heard.errors:
        return "has another version of this program: `git pull` and `make install` in both clones make them equal"
    return f"has no Python at {sys.executable}: the clone must be at the same path there, and `make install` run in it"
