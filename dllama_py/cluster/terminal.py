"""The user's terminal: a line asked for, an answer shown, Ctrl-C. Knows no model and no job."""

import os
import shutil
import signal
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

from dllama_py.home import home_folder

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession

PROMPT = "> "
WELCOME = "/help lists the commands; Ctrl-C stops an answer, Ctrl-D ends."
AGAIN = "Ctrl-C again or Ctrl-D ends"
DIM, PLAIN = "\x1b[2m", "\x1b[22m"
QUOTES = '"""'  # around a text of several lines

# What a model writes cannot drive the terminal: control characters are shown as marks, but for tab and line end.
_HARMLESS = {code: "\ufffd" for code in [*range(32), *range(0x7F, 0xA0)] if chr(code) not in "\t\n"} | {ord("\r"): ""}


class Console:
    """Asks with editing and history, shows answers as they come, thoughts folded or dimmed."""

    def __init__(self) -> None:
        from dllama_py.cluster.word_wrap import WordWrap  # prompt_toolkit takes a while to import

        self._dims = not os.environ.get("NO_COLOR")
        self._dimmed = False
        self._folds = True
        self._thinking_since_s: float | None = None  # a thought that is folded has begun then
        self._wrap = WordWrap()
        self._welcomed = False
        self._session: PromptSession[str] | None = None

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Lines can be asked for; those of earlier conversations are kept in a file of the home folder if they can."""
        from dllama_py.cluster.line_editor import line_editor

        self._session = line_editor(home_folder() / "chat_history")
        yield

    def ask(self) -> str | None:
        """A line of the user's, or several; None at the end of input. KeyboardInterrupt at the second Ctrl-C in a row:
        the first may have been meant for an answer that had just ended, and only clears the line.
        """
        assert self._session is not None, "the console is not open"
        if not self._welcomed:
            self._welcomed = True
            self.say(WELCOME)
        is_warned = False
        while True:
            try:
                line = unquoted(self._session.prompt(PROMPT))
            except EOFError:
                _write("\n")
                return None
            except KeyboardInterrupt:
                if is_warned:
                    raise
                is_warned = True
                self.say(AGAIN)
            else:
                if line.split() not in (["/think", "show"], ["/think", "fold"]):
                    return line
                self._folds = line.endswith("fold")
                self.say("thoughts are folded" if self._folds else "thoughts are shown")

    def show(self, text: str, thought: bool) -> None:
        """More of the answer, at once."""
        if thought and self._folds:
            if self._thinking_since_s is None:
                self._thinking_since_s = time.monotonic()
                self._emit("[thinking", dimmed=True)
            return
        if self._thinking_since_s is not None:
            seconds, self._thinking_since_s = time.monotonic() - self._thinking_since_s, None
            self._emit(f" for {seconds:.1f} s]\n", dimmed=True)
        self._emit(text.translate(_HARMLESS), dimmed=thought)

    def end_line(self) -> None:
        """The next text begins a line, and is not dimmed."""
        self.show("", thought=False)
        if not self._wrap.at_start:
            self._emit("\n", dimmed=False)

    def say(self, line: str) -> None:
        """A line beside the answer, on standard error, broken between words where it is longer than the terminal."""
        self.end_line()
        n_columns = shutil.get_terminal_size().columns - 1
        for each in line.split("\n"):
            sys.stderr.write("\n".join(textwrap.wrap(each, n_columns) if len(each) > n_columns else [each]) + "\n")
        sys.stderr.flush()

    @contextmanager
    def interruptible(self, cancel: Callable[[], None]) -> Iterator[None]:
        """Ctrl-C calls `cancel`; a second one, before the first has worked, is a KeyboardInterrupt. What is typed
        meanwhile waits for the next prompt.
        """
        n_presses = 0

        def press(number: int, frame: FrameType | None) -> None:
            nonlocal n_presses
            n_presses += 1
            if n_presses > 1:
                raise KeyboardInterrupt
            cancel()

        before = signal.signal(signal.SIGINT, press)
        try:
            with _without_echo():
                yield
        finally:
            self.end_line()
            signal.signal(signal.SIGINT, before)

    def _emit(self, text: str, dimmed: bool) -> None:
        if self._dims and dimmed != self._dimmed:
            _write(DIM if dimmed else PLAIN)
            self._dimmed = dimmed
        _write(self._wrap.feed(text, shutil.get_terminal_size().columns))


def unquoted(line: str) -> str:
    '''What stands between """ and """; any other line as it is.'''
    text = line.strip()
    is_quoted = text.startswith(QUOTES) and text.endswith(QUOTES) and len(text) >= 2 * len(QUOTES)
    return text[len(QUOTES) : -len(QUOTES)].strip("\n") if is_quoted else line


def is_open(line: str) -> bool:
    '''Whether a line begins with """ and more has to follow.'''
    text = line.strip()
    return text.startswith(QUOTES) and unquoted(line) == line


@contextmanager
def _without_echo() -> Iterator[None]:
    """Keys that are pressed are not mixed into what is shown."""
    import termios

    try:
        before = termios.tcgetattr(sys.stdin)
    except (termios.error, OSError, ValueError):  # no terminal
        yield
        return
    silent = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    try:
        with suppress(termios.error):
            termios.tcsetattr(sys.stdin, termios.TCSANOW, silent)
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(sys.stdin, termios.TCSANOW, before)


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
