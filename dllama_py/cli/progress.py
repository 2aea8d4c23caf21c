"""How far a long work is, on standard error: a bar on a terminal, else a line now and then; nothing of short works.

A thread of its own looks at what was told last, so that a wait for one slow node or one long compilation shows too.
"""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from dllama_py.progress import Progress, Work
from dllama_py.sizes import size

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

QUIET_S = 2.0  # works that end before say nothing; also the time between two lines
LOOK_S = 0.25


@contextmanager
def shown_progress() -> Iterator[Progress]:
    """What to tell of works inside this context; whatever is shown is finished at its end."""
    watch = _Watch(_Bar() if sys.stderr.isatty() else _Lines())
    try:
        yield watch.tell
    finally:
        watch.close()


class _Watch:
    """Keeps the last word on the present work, and has it shown once the work has taken a while."""

    def __init__(self, view: "_Bar | _Lines") -> None:
        self._view = view
        self._lock = threading.Lock()
        self._state: _State | None = None
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None

    def tell(self, work: Work, done: int, detail: str) -> None:
        with self._lock:
            if self._state is None or self._state.work != work:
                self._finish()
                self._state = _State(work)
            self._state.done, self._state.detail = done, detail
            if done >= work.total:
                self._finish()
        if self._thread is None:
            self._thread = threading.Thread(target=self._look, name="progress", daemon=True)
            self._thread.start()

    def close(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        with self._lock:
            self._finish()

    def _finish(self) -> None:
        if self._state is not None and self._state.is_shown:
            self._view.finish()
            if self._state.done >= self._state.work.total:
                _say(self._state.last_line())
        self._state = None

    def _look(self) -> None:
        while not self._ended.wait(LOOK_S):
            with self._lock:
                if self._state is not None and self._state.seconds > QUIET_S:
                    self._state.is_shown = True
                    self._view.show(self._state)


class _State:
    """Of one work."""

    def __init__(self, work: Work) -> None:
        self.work = work
        self.done = 0
        self.detail = ""
        self.is_shown = False
        self._started = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def line(self) -> str:
        """'loading weights: 37%, 1.2 GB of 3.3 GB, 410.0 MB/s, 5 s left: layers.3.down to rank 1 on b'."""
        share = f"{self.done / max(self.work.total, 1):.0%}"
        left = f", {self.seconds / self.done * (self.work.total - self.done):.0f} s left" if self.done else ""
        done = size(self.done) if self.work.unit == "B" else str(self.done)
        amounts = f", {done} of {self._total()}{self._rate()}" if self.work.unit else ""
        return f"{self.work.title}: {share}{amounts}{left}{': ' if self.detail else ''}{self.detail}"

    def last_line(self) -> str:
        total = f"{self._total()} in " if self.work.unit else ""
        return f"{self.work.title}: {total}{self.seconds:.1f} s{self._rate()}"

    def _total(self) -> str:
        return size(self.work.total) if self.work.unit == "B" else f"{self.work.total} {self.work.unit}"

    def _rate(self) -> str:
        return f", {size(int(self.done / self.seconds))}/s" if self.work.unit == "B" else ""


class _Lines:
    """For files and pipes, and under mpirun, where no rank has a terminal."""

    def __init__(self) -> None:
        self._said_at = 0.0

    def show(self, state: _State) -> None:
        if time.monotonic() - self._said_at >= QUIET_S:
            self._said_at = time.monotonic()
            _say(state.line())

    def finish(self) -> None:
        """A line needs no tidying up."""


class _Bar:
    """For terminals; rich is imported when there is something to show."""

    def __init__(self) -> None:
        self._bar: Bar | None = None

    def show(self, state: _State) -> None:
        if self._bar is None:
            self._bar = _rich_bar()
            self._bar.start()
            self._bar.add_task("", total=None)
        task = self._bar.tasks[0].id
        self._bar.update(task, description=state.line(), completed=state.done, total=max(state.work.total, 1))

    def finish(self) -> None:
        if self._bar is not None:
            self._bar.stop()  # transient: it leaves nothing behind
            self._bar = None


def _rich_bar() -> "Bar":
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as RichProgress

    columns = BarColumn(bar_width=20), TextColumn("{task.description}", markup=False)
    return RichProgress(*columns, console=Console(stderr=True), transient=True)


def _say(line: str) -> None:
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)
