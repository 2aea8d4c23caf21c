"""How far compiling is: by the seconds that each function takes, as they are estimated, and not by their number.

While a long one compiles its share grows too, so that a bar moves evenly.
"""

import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from dllama_py.kernels.functions import Compilable
from dllama_py.progress import Progress, Work

PARTS = 1000
# Estimated seconds of the functions that take long, by how their names begin; only their ratios matter.
_ESTIMATED_S = {
    "attention": 2.6,
    "matmul": 1.3,
    "prepare_heads": 1.2,
    "find_candidates": 0.7,
    "norm": 0.4,
    "dllama_py.kernels.pack": 0.4,
}
_OTHERS_S = 0.2
TICK_S = 0.2


def expected_s(name: str) -> float:
    """Of compiling the function of that name, on a certain machine."""
    return next((seconds for start, seconds in _ESTIMATED_S.items() if name.startswith(start)), _OTHERS_S)


class Meter:
    """Of one round of compiling."""

    def __init__(self, waiting: Sequence[Compilable], on_progress: Progress) -> None:
        self._on_progress = on_progress
        self._waiting = waiting
        self._left_s = {each.name: expected_s(each.name) for each in waiting}
        self._total_s = sum(self._left_s.values())
        self._work = Work("compiling kernels for this CPU, once", PARTS, "")
        self._done_s, self._name = 0.0, ""
        self._began = self._since = time.monotonic()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Inside it the share grows with time too, shown by a thread."""
        ended = threading.Event()

        def show() -> None:
            while not ended.wait(TICK_S):
                self._tell()

        thread = threading.Thread(target=show, name="compiling", daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join()
        self._on_progress(self._work, PARTS, "")

    def make(self, function: Compilable) -> None:
        """Has it loaded or compiled."""
        self._name, self._since = function.name, time.monotonic()
        function.make()
        self._done_s, self._name = self._done_s + self._left_s.pop(function.name), ""

    def _tell(self) -> None:
        """What is done, here or by others, and of what is being made as much as its time makes likely: less and less,
        never all.
        """
        name, now = self._name, time.monotonic()
        left_s = dict(self._left_s)
        expected = left_s.pop(name, 0.0)
        pace = self._done_s / (self._since - self._began) if self._done_s else 1.0
        likely_s = expected * (1 - math.exp(-pace * (now - self._since) / expected)) if expected else 0.0
        others_s = sum(left_s[each.name] for each in self._waiting if each.name in left_s and each.file.is_there())
        share = min((self._done_s + others_s + likely_s) / self._total_s, 0.99)
        self._on_progress(self._work, int(PARTS * share), name.rpartition(".")[2])
