"""Many token loops at once: those of a group share steps, and each stage of a pipeline has a group of its own.

What a row computes does not depend on its neighbours, so every sequence gets the ids that it would get alone.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Protocol

from dllama_py.engine.generate import Event, Loop
from dllama_py.engine.runner import Pending
from dllama_py.engine.step import Row, StepResult, Work
from dllama_py.errors import UsageError


class Steps(Protocol):
    """What it needs of `runner.Runner`."""

    max_rows: int

    @property
    def n_in_flight(self) -> int: ...

    def submit(self, work: Work, /) -> Pending: ...

    def collect(self, pending: Pending, /) -> StepResult: ...


def generate_together(runner: Steps, loops: Sequence[Loop]) -> Iterator[tuple[int, Event]]:
    """Runs all loops to their ends; what comes of each, with its number, as it comes.

    As many steps are under way as there are stages, if there are loops enough. A loop may be closed to end it.
    """
    n_groups = min(runner.n_in_flight, len(loops))
    groups = [_Group(runner, list(enumerate(loops))[number::n_groups]) for number in range(n_groups)]
    under_way: deque[_Group] = deque()
    for group in groups:
        yield from group.begin()
        under_way.extend([group] if group.submit() else [])
    while under_way:
        group = under_way.popleft()
        yield from group.collect()
        under_way.extend([group] if group.submit() else [])


class _Group:
    """Loops whose work goes into one step. Work that finds no room in it waits for the next."""

    def __init__(self, runner: Steps, loops: Sequence[tuple[int, Loop]]) -> None:
        self._runner = runner
        self._loops = dict(loops)
        self._waiting: deque[tuple[int, Work]] = deque()
        self._taken: list[tuple[int, Work]] = []
        self._pending: Pending | None = None

    def begin(self) -> Iterator[tuple[int, Event]]:
        for number in list(self._loops):
            yield from self._advance(number, None)

    def submit(self) -> bool:
        """Whether there was anything to compute."""
        room = self._runner.max_rows
        self._taken = []
        while self._waiting and len(self._waiting[0][1].rows) <= room:
            self._taken.append(self._waiting.popleft())
            room -= len(self._taken[-1][1].rows)
        if self._waiting and not self._taken:
            raise UsageError(f"{len(self._waiting[0][1].rows)} rows at once are wanted; a step has {room} (--chunk)")
        self._pending = self._runner.submit(_joined([work for _, work in self._taken])) if self._taken else None
        return self._pending is not None

    def collect(self) -> Iterator[tuple[int, Event]]:
        """What came of the step, and what its loops make of it."""
        assert self._pending is not None
        result = self._runner.collect(self._pending)
        first = 0
        for number, work in self._taken:
            scores = result.scores[first : first + len(work.wanted)]
            first += len(work.wanted)
            yield from self._advance(number, StepResult(result.logits, result.cost, scores))

    def _advance(self, number: int, result: StepResult | None) -> Iterator[tuple[int, Event]]:
        """A loop's events until it has work again or ends."""
        try:
            item = self._loops[number].send(result)
            while not isinstance(item, Work):
                yield number, item
                item = next(self._loops[number])
            self._waiting.append((number, item))
        except StopIteration:
            del self._loops[number]


def _joined(works: Sequence[Work]) -> Work:
    """One step of all rows. Of all wanted rows scores are wanted."""
    rows: list[Row] = []
    wanted: list[int] = []
    for work in works:
        wanted += [len(rows) + number for number in work.wanted]
        rows += work.rows
    return Work(rows, wanted, [ask for work in works for ask in work.asks])
