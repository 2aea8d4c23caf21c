"""The user's terminal: a line asked for, an answer shown, Ctrl-C. Knows no model and no job."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from dllama_py.home import home_folder

PROMPT = "> "
WELCOME = "/help lists the commands; Ctrl-C stops an answer, Ctrl-D ends."
AGAIN = "Ctrl-C again or Ctrl-D ends"
DIM, PLAIN = "\x1b[2m", "\x1b[22m"
HISTORY_LINES = 1000

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


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
