"""The small process between an MPI launcher and a rank: it tells how the rank died, because nobody else can.

A rank killed by a signal cannot speak, and the launcher ends the survivors with a signal that they cannot catch. So
each process that the launcher starts keeps the rank as its child, says one line about a death, and passes on exit
codes and signals. A rank that leaves alone takes the job along, since the others may be waiting for it. The watcher
imports as little as possible and uses no MPI. It leaves the launcher's control socket open until it ends itself, so
that the launcher does not clean up before the line is out.
"""

import os
import signal
import sys
import time
from collections.abc import Collection
from types import FrameType

from dllama_py.cluster.rank_state import Change, await_change, handle_of
from dllama_py.errors import ClusterError
from dllama_py.transport.environment import launched_rank
from dllama_py.transport.silence import PATIENCE, patience_of
from dllama_py.transport.watched import PIPE
from dllama_py.troubleshooting import with_row

WATCHER = "DLLAMA_WATCHER"  # in the rank's environment: process id of the watcher above it
PATIENCE_S = 2.0
READING_S = 0.2  # in which the launcher reads a line; asked to end the job, it reads no more
ALL_LEAVE = (0, 2)  # codes with which every rank ends by itself: done, wrong usage
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SET_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux' prctl

HINTS: dict[int, str] = {
    signal.SIGKILL: "out of memory? the kernel's log (dmesg) tells; use more ranks or a smaller --max-seq-len",
    signal.SIGILL: "an instruction this CPU lacks; every host must compile its own kernels, caches cannot be copied",
    signal.SIGBUS: "a mapped file became shorter or its disk failed; check the model file",
    signal.SIGSEGV: "a fault in native code; please report it with the command line",
    signal.SIGABRT: "native code gave up; its own message should stand above",
}


def is_wanted() -> bool:
    """Whether an MPI launcher started this very process and no watcher stands above it yet."""
    return launched_rank(os.environ) is not None and os.environ.get(WATCHER) != str(os.getppid())


def watch() -> int:
    """Run this program once more as a child and wait for its end; -> the exit code for the launcher.

    The child has the same arguments, streams and open files. It dies with the watcher (on Linux). Network libraries
    are known to crash when another rank vanishes; so only a SIGKILL is told at once, other deaths after a while in
    which the watcher of the rank that went first can end the job.
    """
    watcher = os.getpid()
    listening, telling = os.pipe()
    child = os.fork()
    if child == 0:
        _become_rank(watcher, telling)
    os.close(telling)
    sent = _pass_on_signals(child)
    if await_change(child, handle_of(child), listening) is Change.FROZEN:
        return tell_frozen()
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    return code if code in ALL_LEAVE else conclude(code, sent)


def conclude(code: int, sent: Collection[int]) -> int:
    """What a rank's end means for the job, told where it was a signal (`code` below 0) but none that was `sent` to end
    it, and carried out; -> the job's exit code."""
    if -code in sent:
        code = 128 - code
    else:
        if code != -signal.SIGKILL:
            time.sleep(PATIENCE_S)
        if code < 0:
            code = _tell_death(-code)
    _end_job(code)
    return code


def tell_frozen() -> int:
    """Of a rank that is stopped where the others cannot miss it; ends the job, -> its exit code."""
    seconds = patience_of(os.environ)
    tell(
        f"no sign of life from rank {launched_rank(os.environ)} on {os.uname().nodename} for {seconds:.0f} s: it is "
        f"frozen by a signal ({PATIENCE} sets the time, 0 waits for ever)"
    )
    _end_job(ClusterError.exit_code)
    return ClusterError.exit_code


def _tell_death(number: int) -> int:
    tell(_obituary(number))
    return ClusterError.exit_code


def tell(line: str) -> None:
    """On a line of its own: an answer may stand half written before it."""
    sys.stderr.write(f"\n{with_row(line)}\n")
    sys.stderr.flush()
    time.sleep(READING_S)


def _end_job(code: int) -> None:
    """Ask the launcher, in the rank's place, to end all ranks: the wire form of PMI-1's abort, which MPICH speaks.

    Without it a job whose ranks have met ends as well, but with a banner about the survivors and with their exit
    code; ranks that have not met yet would wait for the missing one for ever.
    """
    control = os.environ.get("PMI_FD", "")
    if control.isdecimal():
        try:
            os.write(int(control), f"cmd=abort exitcode={code}\n".encode())
        except OSError:
            pass  # the launcher is gone already


def _become_rank(watcher: int, pipe: int) -> None:
    os.set_inheritable(pipe, True)
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
        os.setpgid(0, 0)  # launchers signal the whole group; passed on by the watcher, a signal comes once
    if os.getppid() != watcher:
        os._exit(ClusterError.exit_code)  # it died before the line above
    os.environ[WATCHER], os.environ[PIPE] = str(watcher), str(pipe)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _pass_on_signals(child: int) -> set[int]:
    """Forward what would end the watcher; -> a set that collects what was forwarded."""
    sent: set[int] = set()

    def forward(number: int, frame: FrameType | None) -> None:
        sent.add(number)
        try:
            os.kill(child, number)
        except ProcessLookupError:
            pass

    for number in ENDING:
        signal.signal(number, forward)
    return sent


def _obituary(number: int) -> str:
    """One line: which rank, where, by what, and what may be behind it."""
    rank = launched_rank(os.environ)
    hint = HINTS.get(number, "was it stopped by hand or by a limit?")
    return f"rank {rank} on {os.uname().nodename} was killed by signal {number} ({_signal_name(number)}): {hint}"


def _signal_name(number: int) -> str:
    """Real-time signals have no names but the first and the last."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return "real-time signal"
