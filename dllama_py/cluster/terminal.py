"""The user's terminal, and a front that keeps it outside the job: under an MPI launcher no rank has one.

`Console` is also what a chat in a single process talks to.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import IO, Any

from dllama_py.home import home_folder
from dllama_py.progress import Progress, Work, unwatched
from dllama_py.transport.failure import INTERRUPTED

PROMPT = "> "
WELCOME = "/help lists the commands; Ctrl-C stops an answer, Ctrl-D ends."
AGAIN = "Ctrl-C again or Ctrl-D ends"
DIM, PLAIN = "\x1b[2m", "\x1b[22m"
HISTORY_LINES = 1000
ENDING_S = 5.0  # in which a job that was told to end is gone

# What a model writes cannot drive the terminal: control characters are shown as marks, but for tab and line end.
_HARMLESS = {code: "\ufffd" for code in [*range(32), *range(0x7F, 0xA0)] if chr(code) not in "\t\n"} | {ord("\r"): ""}


class Console:
    """Asks with editing and history, shows answers as they come, thoughts dimmed."""

    def __init__(self) -> None:
        self._dims = not os.environ.get("NO_COLOR")
        self._dimmed = False
        self._column_0 = True
        self._welcomed = False

    @contextmanager
    def opened(self) -> Iterator[None]:
        """The history of earlier conversations, kept in a file of the home folder if it can be."""
        try:
            import readline
        except ImportError:  # a Python without it; lines can be typed all the same
            yield
            return
        path = home_folder() / "chat_history"
        with suppress(OSError):
            readline.read_history_file(path)
        readline.set_history_length(HISTORY_LINES)
        try:
            yield
        finally:
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                readline.write_history_file(path)

    def ask(self) -> str | None:
        """A line of the user's; None at the end of input. KeyboardInterrupt at the second Ctrl-C in a row: the first
        may have been meant for an answer that had just ended, and only clears the line.
        """
        if not self._welcomed:
            self._welcomed = True
            self.say(WELCOME)
        is_warned = False
        while True:
            try:
                return input(PROMPT)
            except EOFError:
                _write("\n")
                return None
            except KeyboardInterrupt:
                _write("\n")
                if is_warned:
                    raise
                is_warned = True
                self.say(AGAIN)

    def show(self, text: str, thought: bool) -> None:
        """More of the answer, at once."""
        if self._dims and thought != self._dimmed:
            _write(DIM if thought else PLAIN)
            self._dimmed = thought
        _write(text.translate(_HARMLESS))
        self._column_0 = text.endswith("\n") if text else self._column_0

    def end_line(self) -> None:
        """The next text begins a line, and is not dimmed."""
        self.show("" if self._column_0 else "\n", thought=False)

    def say(self, line: str) -> None:
        """A line beside the answer, on standard error."""
        self.end_line()
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    @contextmanager
    def interruptible(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Ctrl-C calls `cancel`; a second one, before the first has worked, is a KeyboardInterrupt."""
        n_presses = 0

        def press(number: int, frame: FrameType | None) -> None:
            nonlocal n_presses
            n_presses += 1
            if n_presses > 1:
                raise KeyboardInterrupt
            cancel()

        before = signal.signal(signal.SIGINT, press)
        try:
            yield
        finally:
            self.end_line()
            signal.signal(signal.SIGINT, before)


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


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
