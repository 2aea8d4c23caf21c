"""How far a long work is, for the program in front of a chat with --json-lines: it has the terminal, so it has the bar.

Lines of standard output: `{"work": TITLE, "total": N, "unit": "B" or NAME, "done": N, "detail": TEXT}`.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager

from dllama_py.progress import Progress, Work

PAUSE_S = 0.1  # between two lines of one work, unless it is done


@contextmanager
def told_progress() -> Iterator[Progress]:
    """What to tell of works inside this context."""
    told: tuple[Work | None, float] = (None, 0.0)

    def tell(work: Work, done: int, detail: str) -> None:
        nonlocal told
        if work == told[0] and done < work.total and time.monotonic() - told[1] < PAUSE_S:
            return
        told = (work, time.monotonic())
        line = {"work": work.title, "total": work.total, "unit": work.unit, "done": done, "detail": detail}
        print(json.dumps(line), flush=True)

    yield tell
