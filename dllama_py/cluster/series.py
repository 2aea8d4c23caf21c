"""Jobs of this program, started from outside MPI one after another, and what they answer.

A mode that compares node counts or settings (`drift`, `bench --nodes`) runs other modes through here. A job that does
not end in time, or whose starter is interrupted, is ended with all its processes. The answer is the JSON object that is
the last line of its standard output; files that it was told to write are on the machine of its root.
"""

import json
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from dllama_py.cluster.job import Placement, exit_code, job_command, job_environment
from dllama_py.errors import ClusterError, DllamaError, InputError, UsageError
from dllama_py.transport.environment import launched_rank

PATIENCE_S = 1800.0
ENDING_S = 5.0
MARK = "error: "  # before the line in which a job says why it ends


@dataclass(frozen=True, slots=True)
class Job:
    """A mode of this program with its options, on the ranks of a placement; `environment` is set for all ranks."""

    placement: Placement
    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    patience_s: float = PATIENCE_S


def refuse_under_launcher(mode: str) -> None:
    """UsageError in a process that an MPI launcher started: jobs cannot start jobs."""
    if launched_rank(os.environ) is not None:
        raise UsageError(f"{mode} starts its own jobs and cannot be one; run it without mpirun, the nodes with --nodes")


def answer_of(job: Job) -> dict[str, Any]:
    """Runs the job to its end -> the object in its last line, {} where that is none.

    The job's own reason, with its exit code, where it refuses (InputError) or fails (ClusterError); ClusterError also
    where it does not end in time.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:  # pipes could be held open for ever
        code = _run(job, output, errors)
        if code:
            raise _failure(job, code, _read(errors))
        return _last_object(_read(output))


def _run(job: Job, output: IO[bytes], errors: IO[bytes]) -> int:
    """-> 0, 2, 3 or 130; nothing of the job is left."""
    process = subprocess.Popen(
        job_command(job.placement, job.arguments),
        env={**job_environment(), **job.environment},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=errors,
        start_new_session=True,  # so that its processes can be found, and Ctrl-C comes here first
    )
    try:
        return exit_code(process.wait(job.patience_s))
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"{_named(job)} did not end within {job.patience_s:g} s and was ended; is a host overloaded or asleep?"
        ) from None
    finally:
        _end(process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """The launcher ends its ranks when it is interrupted; whatever does not obey is killed."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if process.poll() is not None:
            break
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(ENDING_S)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # a watcher takes its rank along
    process.wait()


def _failure(job: Job, code: int, errors: str) -> DllamaError:
    lines = [line.strip() for line in errors.splitlines() if line.strip()] or ["it gave no reason"]
    reason = next((line.removeprefix(MARK) for line in reversed(lines) if line.startswith(MARK)), lines[-1])
    kind = InputError if code == InputError.exit_code else ClusterError
    return kind(f"{_named(job)} ended: {reason}")


def _named(job: Job) -> str:
    n_ranks = job.placement.n_ranks
    return f"the job of {job.arguments[0]} on {n_ranks} node{'s' * (n_ranks != 1)}"


def _read(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _last_object(output: str) -> dict[str, Any]:
    try:
        found = json.loads(output.rstrip().rpartition("\n")[2])
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
