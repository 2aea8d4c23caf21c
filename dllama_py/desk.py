"""Where answers are asked for while others are under way: each gets a slot of the cache, and together they share steps.

Whoever asks may be in another thread; the engine belongs to the one that runs the desk. It knows token ids and the text
they spell, but no prompts: those come as ids.
"""

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from dllama_py.completion import Event, Request, Spelling
from dllama_py.engine.runner import Runner
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.speculation import Speculating
from dllama_py.engine.together import Together
from dllama_py.engine.token_loop import Loop, PromptChunk, Token, token_loop
from dllama_py.errors import UsageError

SpeculationOf = Callable[[int, SamplerSettings, int], Speculating]  # of slot, sampling, and ids that there are


@dataclass(slots=True, eq=False)
class Job:
    """One answer. `tell` is called in the desk's thread, with a Finish at last or the error that ended it. Set
    `is_cancelled` to hear no more.
    """

    request: Request
    drop_first_space: bool
    tell: Callable[[Event | Exception], None]
    is_cancelled: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True, slots=True)
class _UnderWay:
    """A job that has a slot."""

    slot: int
    loop: Loop
    spelling: Spelling


class Desk:
    """Runs jobs as they come, as many at once as there are slots; the others wait."""

    def __init__(
        self, runner: Runner, n_slots: int, piece_bytes: Callable[[int], bytes], speculation_of: SpeculationOf
    ) -> None:
        self._runner = runner
        self._piece_bytes = piece_bytes
        self._speculation_of = speculation_of
        self._wanted: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._sequences = [CachedSequence(runner, slot) for slot in range(n_slots)]
        self._free = set(range(n_slots))
        self._is_closed = False
        self._ended: Exception | None = None  # why nobody runs it any more
        self._jobs: dict[Job, _UnderWay] = {}
        self._together = Together[Job](runner)

    def submit(self, job: Job) -> None:
        """From any thread. Where the desk has ended the job is told so."""
        self._wanted.put(job)
        if self._ended is not None:
            self._dismiss(self._ended)

    def close(self) -> None:
        """From any thread: `run` ends; jobs that are under way or wait are told so."""
        self._is_closed = True
        self._wanted.put(None)  # wakes it

    def run(self) -> None:
        """In the engine's thread, until it is closed. What ends the engine ends all jobs, and is raised here."""
        reason: Exception = UsageError("the engine was closed before the answer was complete; keep it open")
        try:
            while self._take_in() and not self._is_closed:
                for job, event in self._together.turn():
                    self._go_on(job, event)
        except Exception as error:
            reason = error
            raise
        finally:
            for job in self._jobs:
                job.tell(reason)
            self._ended = reason  # before the last look: whoever comes later looks by itself
            self._dismiss(reason)

    def _take_in(self) -> bool:
        """Jobs that have come, as far as there are slots; with nothing to do it waits for one. False: to be closed."""
        while self._free:
            try:
                job = self._wanted.get(block=not self._jobs)
            except queue.Empty:
                return True
            if job is None:
                return False
            self._begin(job)
        return True

    def _dismiss(self, reason: Exception) -> None:
        """Tells those that wait. From any thread."""
        with suppress(queue.Empty):
            while True:
                job = self._wanted.get_nowait()
                if job is not None:
                    job.tell(reason)

    def _begin(self, job: Job) -> None:
        """In the slot whose ids go furthest along with the prompt."""
        request = job.request
        slot = max(self._free, key=lambda free: (self._sequences[free].common(request.prompt), -free))
        self._free.remove(slot)
        speculation = self._speculation_of(slot, request.settings, request.n_vocab)
        sequence = self._sequences[slot]
        loop = token_loop(sequence, request.prompt, request.settings, request.n_tokens, request.n_vocab, speculation)
        spelling = Spelling(request, self._piece_bytes, drop_first_space=job.drop_first_space)
        self._jobs[job] = _UnderWay(slot, loop, spelling)
        self._together.add(job, loop)

    def _go_on(self, job: Job, event: PromptChunk | Token | None) -> None:
        """Tells what came of a job. Its slot is free once its loop has ended."""
        at = self._jobs[job]
        if not job.is_cancelled.is_set():
            for each in at.spelling.end() if event is None else at.spelling.feed(event):
                job.tell(each)
        if event is None:
            del self._jobs[job]
            self._free.add(at.slot)
        elif at.spelling.is_over or job.is_cancelled.is_set():
            at.loop.close()
