"""What a runner does beside computing a step: of one stage, and as a pipeline would."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from dllama_py.engine.step import StepResult, Work


class OneStage(ABC):
    """A step that is submitted is computed when it is collected; a test's own runner says how."""

    max_rows: int
    context: int
    n_stages = 1
    n_in_flight = 1

    def seconds_of(self, n_rows: int) -> float:
        """Of a step, on a pipe's clock: none unless the test says so."""
        return 0.0

    @abstractmethod
    def cut(self, slot: int, length: int, /) -> None: ...

    @abstractmethod
    def forward(self, work: Work, /) -> StepResult: ...

    def submit(self, work: Work, /) -> Work:
        return work

    def is_there(self, work: Work, /) -> bool:
        return True

    def collect(self, work: Work, /) -> StepResult:
        return self.forward(work)

    def recall(self, works: Sequence[Work], /) -> None:
        raise AssertionError("nothing is sent ahead where there is one stage")


class _Passing:
    """A step in the pipe. `times`: of each stage, when it begins and ends; a void one may lack the later ones."""

    def __init__(self, work: Work, submitted_s: float) -> None:
        self.work = work
        self.submitted_s = submitted_s
        self.times: list[tuple[float, float]] = []
        self.is_void = False


class Pipe:
    """Several stages with a clock of their own, around a runner of one stage that knows the numbers.

    A stage takes its part of the time of a step, a hop takes `hop_s`. A recalled step is computed by the stages that
    have begun with it before, and so its rows may or may not be in the cache.
    """

    def __init__(self, runner: OneStage, n_stages: int, n_in_flight: int, hop_s: float = 0.0) -> None:
        self.n_stages, self.n_in_flight = n_stages, n_in_flight
        self.max_rows, self.context, self.cut = runner.max_rows, runner.context, runner.cut
        self.now_s = 0.0
        self.n_recalled = 0
        self._runner = runner
        self._hop_s = hop_s
        self._result_s = 0.0  # when the last one was taken
        self._passing: deque[_Passing] = deque()
        self._busy_until = [0.0] * n_stages

    def forward(self, work: Work, /) -> StepResult:
        return self.collect(self.submit(work))

    def submit(self, work: Work, /) -> _Passing:
        step = _Passing(work, self.now_s)
        assert sum(not each.is_void for each in self._passing) < self.n_in_flight
        part_s = self._runner.seconds_of(len(work.rows)) / self.n_stages
        at_s = self.now_s
        for stage in range(self.n_stages):
            at_s = max(at_s, self._busy_until[stage])
            step.times.append((at_s, at_s + part_s))
            self._busy_until[stage] = at_s + part_s
            at_s += part_s + self._hop_s
        self.now_s = step.times[0][1]
        self._passing.append(step)
        return step

    def is_there(self, step: _Passing, /) -> bool:
        return not step.work.wanted or step.times[-1][1] + self._hop_s <= self.now_s

    def collect(self, step: _Passing, /) -> StepResult:
        while (first := self._passing.popleft()).is_void:
            if len(first.times) == self.n_stages:
                self._runner.forward(first.work)
        assert first is step, "steps are collected in the order in which they were submitted"
        if step.work.wanted:
            self.now_s = max(self.now_s, step.times[-1][1] + self._hop_s)
        seconds = self.now_s - max(step.submitted_s, self._result_s)
        self._result_s = self.now_s
        result = self._runner.forward(step.work)
        return replace(result, cost=replace(result.cost, seconds=seconds))

    def recall(self, steps: Sequence[_Passing], /) -> None:
        self.n_recalled += len(steps)
        for step in steps:
            assert step.work.is_ahead
            step.is_void = True
            step.times = [times for times in step.times if times[0] <= self.now_s + self._hop_s]
        for stage in range(self.n_stages):
            ends_s = [each.times[stage][1] for each in self._passing if len(each.times) > stage]
            self._busy_until[stage] = max(ends_s, default=self.now_s)
