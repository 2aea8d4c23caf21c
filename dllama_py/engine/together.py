"""Many token loops at once: those of a group share steps, and each stage of a pipeline has a group of its own.

What a row computes does not depend on its neighbours, so every sequence gets the ids that it would get alone, whenever
others come and go.
"""

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from dllama_py.engine.generate import Event, Loop
from dllama_py.engine.step import Row, StepResult, Work
from dllama_py.errors import UsageError

if TYPE_CHECKING:  # needs compiled code, which a command's --help has not
    from dllama_py.engine.runner import Pending

Key = TypeVar("Key", bound=Hashable)


class Steps(Protocol):
    """What it needs of `runner.Runner`."""

    max_rows: int

    @property
    def n_in_flight(self) -> int: ...

    def submit(self, work: Work, /) -> "Pending": ...

    def collect(self, pending: "Pending", /) -> StepResult: ...


class Together(Generic[Key]):
    """Runs loops, each known by a key. As many steps are under way as there are stages, if there are loops enough."""

    def __init__(self, runner: Steps) -> None:
        self._groups = [_Group[Key](runner) for _ in range(runner.n_in_flight)]
        self._under_way: deque[_Group[Key]] = deque()

    def add(self, key: Key, loop: Loop) -> None:
        """Begins with the next turn. A loop may be closed at any time to end it."""
        min(self._groups, key=lambda group: group.n_loops).add(key, loop)

    @property
    def n_loops(self) -> int:
        """That have not ended."""
        return sum(group.n_loops for group in self._groups)

    def turn(self) -> Iterator[tuple[Key, Event | None]]:
        """Waits for the oldest step under way: what comes of its loops, None where one has ended."""
        for group in self._groups:
            if group not in self._under_way:
                yield from self._go_on(group)
        if self._under_way:
            group = self._under_way.popleft()
            yield from group.collect()
            yield from self._go_on(group)

    def _go_on(self, group: "_Group[Key]") -> Iterator[tuple[Key, Event | None]]:
        yield from group.begin()
        if group.submit():
            self._under_way.append(group)


class _Group(Generic[Key]):
    """Loops whose work goes into one step. Work that finds no room in it waits for the next."""

    def __init__(self, runner: Steps) -> None:
        self._runner = runner
        self._new: list[tuple[Key, Loop]] = []
        self._loops: dict[Key, Loop] = {}
        self._waiting: deque[tuple[Key, Work]] = deque()
        self._taken: list[tuple[Key, Work]] = []
        self._pending: Pending | None = None

    @property
    def n_loops(self) -> int:
        return len(self._loops) + len(self._new)

    def add(self, key: Key, loop: Loop) -> None:
        self._new.append((key, loop))

    def begin(self) -> Iterator[tuple[Key, Event | None]]:
        """Loops that were added find out what they want first."""
        new, self._new = self._new, []
        for key, loop in new:
            self._loops[key] = loop
            yield from self._advance(key, None)

    def submit(self) -> bool:
        """Whether there was anything to compute."""
        room, self._taken = self._runner.max_rows, []
        while self._waiting and len(self._waiting[0][1].rows) <= room:
            self._taken.append(self._waiting.popleft())
            room -= len(self._taken[-1][1].rows)
        if self._waiting and not self._taken:
            raise UsageError(f"{len(self._waiting[0][1].rows)} rows at once are wanted; a step has {room} (--chunk)")
        self._pending = self._runner.submit(_joined([work for _, work in self._taken])) if self._taken else None
        return self._pending is not None

    def collect(self) -> Iterator[tuple[Key, Event | None]]:
        """What came of the step, and what its loops make of it."""
        assert self._pending is not None
        result = self._runner.collect(self._pending)
        first = 0
        for key, work in self._taken:
            scores = result.scores[first : first + len(work.wanted)]
            first += len(work.wanted)
            yield from self._advance(key, StepResult(result.logits, result.cost, scores))

    def _advance(self, key: Key, result: StepResult | None) -> Iterator[tuple[Key, Event | None]]:
        """A loop's events until it has work again or ends."""
        loop = self._loops[key]
        try:
            item = loop.send(result)
            while not isinstance(item, Work):
                yield key, item
                item = next(loop)
            self._waiting.append((key, item))
        except StopIteration:
            del self._loops[key]
            yield key, None


def _joined(works: Sequence[Work]) -> Work:
    """One step of all rows. Of all wanted rows scores are wanted."""
    rows: list[Row] = []
    wanted: list[int] = []
    for work in works:
        wanted += [len(rows) + number for number in work.wanted]
        rows += work.rows
    return Work(rows, wanted, [ask for work in works for ask in work.asks])
