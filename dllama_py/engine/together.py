"""Runs token loops, one or many at once: their works become steps, as many under way as the stages can use.

What a row computes does not depend on its neighbours, so every sequence gets the ids that it would get alone, whenever
others come and go. Where there are no more loops than stages, each has steps for itself; then it may send steps ahead,
behind guesses that nobody has confirmed yet, for which stages would wait otherwise. What turns out to be behind a wrong
guess is recalled (continuous speculation and early cancellation: PipeInfer, arXiv 2407.11798).
"""

from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from dllama_py.engine.step import Row, StepResult, Steps, UnderWay, Work
from dllama_py.engine.token_loop import Event, Loop
from dllama_py.errors import UsageError

Key = TypeVar("Key", bound=Hashable)


@dataclass(slots=True, eq=False)
class _Joint(Generic[Key]):
    """A step under way. `works`: in the order of its rows; the key is None where nobody wants the result any more."""

    step: UnderWay
    works: list[tuple[Key | None, Work]]
    is_ahead: bool

    def parts(self, result: StepResult) -> Iterator[tuple[Key, StepResult]]:
        """What is whose."""
        first = 0
        for key, work in self.works:
            scores = result.scores[first : first + len(work.wanted)]
            first += len(work.wanted)
            if key is not None:
                yield key, StepResult(result.logits, result.cost, scores)

    def forget(self, key: Key) -> bool:
        """Whether nobody wants anything of the step."""
        self.works = [(None if other == key else other, work) for other, work in self.works]
        return all(other is None for other, _ in self.works)


class Together(Generic[Key]):
    """Runs loops, each known by a key."""

    def __init__(self, runner: Steps) -> None:
        self._runner = runner
        self._new: list[tuple[Key, Loop]] = []
        self._loops: dict[Key, Loop] = {}
        self._waiting: deque[tuple[Key, Work]] = deque()  # for a step
        self._under_way: deque[_Joint[Key]] = deque()

    def add(self, key: Key, loop: Loop) -> None:
        """Begins with the next turn. A loop may be closed at any of its events to end it."""
        self._new.append((key, loop))

    @property
    def n_loops(self) -> int:
        """That have not ended."""
        return len(self._loops) + len(self._new)

    def turn(self) -> Iterator[tuple[Key, Event | None]]:
        """Waits for the oldest step under way: what comes of its loops, None where one has ended."""
        yield from self._begin()
        self._fill()
        if self._under_way:
            joint = self._under_way.popleft()
            result = self._runner.collect(joint.step)
            for key, part in joint.parts(result):
                yield from self._advance(key, part)
            yield from self._begin()
            self._fill()

    def forget(self, key: Key) -> None:
        """What is waiting or under way of a loop that ends, or goes on elsewhere than was guessed, is void."""
        self._waiting = deque((other, work) for other, work in self._waiting if other != key)
        void = [joint for joint in self._under_way if joint.forget(key)]
        if void:
            self._under_way = deque(joint for joint in self._under_way if joint not in void)
            self._runner.recall([joint.step for joint in void])

    def _begin(self) -> Iterator[tuple[Key, Event | None]]:
        """Loops that were added find out what they want first."""
        new, self._new = self._new, []
        for key, loop in new:
            self._loops[key] = loop
            yield from self._advance(key, None)

    def _advance(self, key: Key, result: StepResult | None) -> Iterator[tuple[Key, Event | None]]:
        """A loop's events until it has work again or ends."""
        loop = self._loops[key]
        try:
            item = loop.send(result)
            while not isinstance(item, Work):
                yield key, item
                item = next(loop)
        except StopIteration:
            self.forget(key)
            del self._loops[key]
            yield key, None
            return
        if not item.is_ahead:
            self.forget(key)
            self._waiting.append((key, item))

    @property
    def _share(self) -> int:
        """Loops that have a step together."""
        return -(-len(self._loops) // self._runner.n_stages)

    def _fill(self) -> None:
        """Steps for all stages, and ahead of these where nothing else waits."""
        while self._waiting and self._has_room and sum(not j.is_ahead for j in self._under_way) < self._runner.n_stages:
            self._submit_some()
        if not self._waiting and self._has_room and self._share == 1:
            self._go_ahead()

    @property
    def _has_room(self) -> bool:
        return len(self._under_way) < self._runner.n_in_flight

    def _submit_some(self) -> None:
        """Works that find no room in the step wait for the next."""
        room = self._runner.max_rows
        taken: list[tuple[Key, Work]] = []
        while self._waiting and len(taken) < self._share and len(self._waiting[0][1].rows) <= room:
            taken.append(self._waiting.popleft())
            room -= len(taken[-1][1].rows)
        if not taken:
            raise UsageError(f"{len(self._waiting[0][1].rows)} rows at once are wanted; a step has {room} (--chunk)")
        step = self._runner.submit(_joined([work for _, work in taken]))
        self._under_way.append(_Joint(step, [*taken], is_ahead=False))

    def _go_ahead(self) -> None:
        """Loops that wait take turns, as far as each finds it worth it; nothing if there is an answer to go on with."""
        keys = deque(dict.fromkeys(key for joint in self._under_way for key, _ in joint.works if key is not None))
        while keys and self._has_room and not self._runner.is_there(self._under_way[0].step):
            key = keys.popleft()
            work = self._loops[key].send(None)
            assert isinstance(work, Work), "there is no event without a result"
            if work.rows:
                self._under_way.append(_Joint(self._runner.submit(work), [(key, work)], is_ahead=True))
                keys.append(key)


def _joined(works: Sequence[Work]) -> Work:
    """One step of all rows. Of all wanted rows scores are wanted."""
    if len(works) == 1:
        return works[0]
    rows: list[Row] = []
    wanted: list[int] = []
    for work in works:
        wanted += [len(rows) + number for number in work.wanted]
        rows += work.rows
    return Work(rows, wanted, [ask for work in works for ask in work.asks])
