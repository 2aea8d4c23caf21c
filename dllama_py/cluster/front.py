"""A front that keeps the user's terminal outside the job: under an MPI launcher no rank has one."""

import json
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from dllama_py.cluster.terminal import Console
from dllama_py.progress import Progress, Work, unwatched
from dllama_py.transport.failure import INTERRUPTED

ENDING_S = 5.0  # in which a job that was told to end is gone


def converse(
    command: Sequence[str], environment: Mapping[str, str] | None = None, on_progress: Progress = unwatched
) -> int:
    """Runs `mpirun ... python -m dllama_py chat ...` as a job and lets the user of this terminal talk to it.

    `on_progress` is told how far the job has loaded. Ctrl-C stops an answer; twice at the prompt, or while the model
    is loaded, it ends the job. -> the exit code of mpirun, or 130. What travels in between is described in
    `cli/faces.py`.
    """
    console = Console()
    # A session of its own: the terminal's Ctrl-C must not reach the launcher, which would end the job.
    job = subprocess.Popen(
        [*command, "--json-lines"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    assert job.stdin is not None and job.stdout is not None
    patience_s = 0.0
    try:
        with console.opened():
            is_ready = _shown(job.stdout, console, on_progress)
            patience_s = ENDING_S
            if is_ready:
                _talk(console, job.stdin, job.stdout)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        _end(job, job.stdin, patience_s)
    return job.returncode


def _talk(console: Console, to_job: IO[bytes], from_job: IO[bytes]) -> None:
    """Until the user or the job ends it."""
    while (line := console.ask()) is not None:
        _send(to_job, {"line": line})
        with console.interruptible(lambda: _send(to_job, {"cancel": True})):
            if not _shown(from_job, console, unwatched):
                return


def _send(to_job: IO[bytes], message: Mapping[str, Any]) -> None:
    with suppress(BrokenPipeError):  # the job is over; reading from it will tell
        to_job.write(json.dumps(message).encode() + b"\n")
        to_job.flush()


def _shown(from_job: IO[bytes], console: Console, on_progress: Progress) -> bool:
    """Shows what the job says until it waits for a line: True; False once it is over."""
    for line in from_job:
        message = json_object(line)
        if message is None:  # the launcher's own words
            console.say(line.decode(errors="replace").rstrip())
        elif "text" in message:
            console.show(message["text"], message["thought"])
        elif "note" in message:
            console.say(message["note"])
        elif "work" in message:
            work = Work(message["work"], message["total"], message["unit"])
            on_progress(work, message["done"], message["detail"])
        elif "waiting" in message:
            return True
    return False


def json_object(line: str | bytes) -> dict[str, Any] | None:
    """The object that a line of JSON holds, None if it is no JSON or no object."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def _end(job: "subprocess.Popen[bytes]", to_job: IO[bytes], patience_s: float) -> None:
    """The end of input ends a job that listens; one that does not in time, or before the user presses Ctrl-C once
    more, is told by signals, and nothing stays.
    """
    with suppress(OSError):
        to_job.close()
    for number, seconds in ((None, patience_s), (signal.SIGINT, ENDING_S), (signal.SIGKILL, ENDING_S)):
        if number is not None:
            job.send_signal(number)
        with suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            job.wait(seconds)
            return
