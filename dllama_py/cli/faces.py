"""Who a chat talks to: a terminal, plain lines, or a program that shows the conversation.

With `--json-lines` each line of standard input is an object: `{"line": TEXT}`, what the user typed, perhaps with
`"chat_template_kwargs": OBJECT` beside it, which counts for the template of this question alone; or
`{"cancel": true}`, which stops the answer; the end of input ends the chat once all lines are answered. A field of
another type is refused with a note. Lines of standard output: `{"text": TEXT, "thought": BOOL}`, more of the answer;
`{"note": TEXT}`, a line beside it; `{"waiting": true}`, the next line is awaited; before the first of these, how far
loading is (`progress_lines.py`).
"""

import io
import json
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol, TextIO

from dllama_py.cli.running import say
from dllama_py.cluster.front import json_object
from dllama_py.cluster.terminal import Console


class Face(Protocol):
    """The user, seen from the conversation."""

    template_options: object  # what came with the last line for the template, None where nothing did

    def ask(self) -> str | None:
        """The next line, None at the end."""

    def show(self, text: str, thought: bool) -> None:
        """More of the answer, at once."""

    def end_line(self) -> None:
        """The answer is complete."""

    def say(self, line: str) -> None:
        """A line beside the answer."""

    def answering(self) -> AbstractContextManager[Callable[[], bool]]:
        """Around all that is shown for one line; gives what tells whether the user wants it to stop."""


@contextmanager
def opened_face(json_lines: bool) -> Iterator[Face]:
    """What suits the streams of this process."""
    if json_lines:
        yield JsonLines(_lines_in(), sys.stdout)
    elif sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty():
        terminal = Terminal()
        with terminal.opened():
            yield terminal
    else:
        yield Lines(_lines_in(), sys.stdout)


class Terminal(Console):
    """A console in the process that computes: Ctrl-C sets a flag that is seen between tokens."""

    template_options: object = None

    @contextmanager
    def answering(self) -> Iterator[Callable[[], bool]]:
        cancelled = threading.Event()
        with self.interruptible(cancelled.set):
            yield cancelled.is_set


class Lines:
    """Plain lines in, plain answers out: a pipe, or a rank under MPI, which has no terminal."""

    template_options: object = None

    def __init__(self, lines: TextIO, out: TextIO) -> None:
        self._lines = lines
        self._out = out

    def ask(self) -> str | None:
        line = self._lines.readline()
        return line.rstrip("\r\n") if line else None

    def show(self, text: str, thought: bool) -> None:
        self._out.write(text)
        self._out.flush()

    def end_line(self) -> None:
        self.show("\n", False)

    def say(self, line: str) -> None:
        say(line)

    @contextmanager
    def answering(self) -> Iterator[Callable[[], bool]]:
        yield lambda: False


class JsonLines:
    """For a program that shows the conversation; it is heard also while an answer is computed.

    A thread reads, because only that can wait for input while the other computes; it touches nothing else. A cancel
    is for the lines before it, also for one whose answer has not begun, and not for those that come later.
    """

    def __init__(self, lines: TextIO, out: TextIO) -> None:
        self._out = out
        self._typed: queue.SimpleQueue[tuple[str | _Refused | None, object]] = queue.SimpleQueue()
        self.template_options: object = None
        self._n_typed = self._n_cancelled = self._n_asked = 0  # lines: heard, those before the last cancel, given
        threading.Thread(target=self._read, args=(lines,), daemon=True).start()

    def ask(self) -> str | None:
        self._tell(waiting=True)
        self._n_asked += 1
        line, self.template_options = self._typed.get()
        while isinstance(line, _Refused):
            self.say(f"error: {line.reason}")
            if line.is_line:
                self._tell(waiting=True)
                self._n_asked += 1
            line, self.template_options = self._typed.get()
        return line

    def show(self, text: str, thought: bool) -> None:
        self._tell(text=text, thought=thought)

    def end_line(self) -> None:
        self.show("\n", False)

    def say(self, line: str) -> None:
        self._tell(note=line)

    @contextmanager
    def answering(self) -> Iterator[Callable[[], bool]]:
        yield lambda: self._n_cancelled >= self._n_asked

    def _tell(self, **message: object) -> None:
        self._out.write(json.dumps(message) + "\n")
        self._out.flush()

    def _read(self, lines: TextIO) -> None:
        try:
            for line in lines:
                message = json_object(line)
                self._hear({"line": line.rstrip("\r\n")} if message is None else message)  # no JSON: somebody typed it
        finally:  # whatever happens, nobody waits for it
            self._typed.put((None, None))

    def _hear(self, message: Mapping[str, object]) -> None:
        refused = _refused(message)
        self._n_typed += refused.is_line if refused else "line" in message
        if refused:
            self._typed.put((refused, None))
        elif "line" in message:
            self._typed.put((str(message["line"]), message.get("chat_template_kwargs")))
        elif message["cancel"]:
            self._n_cancelled = self._n_typed


@dataclass(frozen=True, slots=True)
class _Refused:
    """A message that means nothing, and whether it stood for a line: then the program waits for what comes of it."""

    reason: str
    is_line: bool = False


def _refused(message: Mapping[str, object]) -> _Refused | None:
    """None for a message that can be meant; it has a line or a cancel, and fields that are not known are nobody's."""
    if "line" in message and "cancel" in message:
        return _Refused("line and cancel in one message; send them one after the other", is_line=True)
    if "line" in message:
        line = message["line"]
        return None if isinstance(line, str) else _Refused(f"line is {json.dumps(line)}; expected a text", is_line=True)
    if "cancel" in message:
        cancel = message["cancel"]
        return None if isinstance(cancel, bool) else _Refused(f"cancel is {json.dumps(cancel)}; expected true or false")
    return _Refused(f"a message with {', '.join(map(json.dumps, message)) or 'no field'}; expected line or cancel")


def _lines_in() -> TextIO:
    """Standard input; bytes that are no UTF-8 are refused later, with the line that has them."""
    if sys.stdin is None:
        return io.StringIO()
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")
    return sys.stdin
