"""How long one rank has kept another waiting, and how long it may.

A frozen rank or a cut link makes no error: the others would wait for ever. So the root misses every rank, every rank
the root, and whoever waits for one that must come (within a step, say) that one. Who has heard nothing for half of the
time asks for a sign of life, which any rank gives, whatever it does: while it waits, between two steps, and by a thread
of its own (`heartbeat.py`) while it loads, compiles or idles, which may take any time. So only a rank that is frozen or
cut off is held to be lost, and the innocent ones between it and others are not.
"""

import math
import time
from collections.abc import Mapping
from typing import Protocol

from dllama_py.errors import ClusterError, UsageError

PATIENCE = "DLLAMA_PATIENCE_S"
DEFAULT_PATIENCE_S = 60.0
LONGEST_LOOK_S = 0.5
ASK, ANSWER = 8, 9  # kinds of signs
LOOK_EVERY_S = 0.1  # after those who are missed at any time
ANSWER_EVERY_S = 0.5  # of a rank that does not wait


def patience_of(environment: Mapping[str, str]) -> float:
    """Seconds that a rank waits for one without a sign of life; 0: for ever."""
    wish = environment.get(PATIENCE) or str(DEFAULT_PATIENCE_S)
    try:
        seconds = float(wish)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise UsageError(f"{PATIENCE} is {wish!r}; expected a number of seconds, or 0 to wait for ever")
    return seconds


class Silence:
    """Of a partner, from now on. Time in which this process was itself stopped (Ctrl-Z, a closed lid) is not counted:
    a waiting rank looks often, so of a longer pause between two looks only `LONGEST_LOOK_S` are."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.was_asked = False
        self._looked_at = time.monotonic()

    def look(self) -> float:
        """Seconds so far."""
        now = time.monotonic()
        self.seconds += min(now - self._looked_at, LONGEST_LOOK_S)
        self._looked_at = now
        return self.seconds

    def restart(self) -> None:
        """The partner has spoken."""
        self.seconds = 0.0
        self.was_asked = False


class Post(Protocol):
    """Carries signs, which are nothing but their kinds."""

    def put(self, kind: int, to: int, /) -> None: ...

    def take(self, kind: int, source: int | None, /) -> int | None:
        """Whose sign it was; None if there was none, from that rank or from any."""


class Signs:
    """Of life, between the ranks of a job, which are told by their numbers in it. `patience_s`: 0 for ever."""

    def __init__(self, post: Post, patience_s: float) -> None:
        self.post = post
        self._patience_s = patience_s
        self._silences: dict[int, Silence] = {}
        self._always: Mapping[int, str] = {}
        self._looked_at = self._missed_at = time.monotonic()

    def miss_always(self, hosts: Mapping[int, str]) -> None:
        """From now on, by `look_round`: these ranks, on these hosts."""
        self._always = hosts
        self._silences |= {rank: Silence() for rank in hosts}

    def look_round(self) -> None:
        """Answers all who asked, and misses those who are missed at any time. Part of every long wait."""
        self.answer()
        now = time.monotonic()
        if now - self._missed_at > LOOK_EVERY_S:
            self._missed_at = now
            for rank, host in self._always.items():
                self.miss(rank, host)

    def look_now_and_then(self) -> None:
        """The same at little cost, however often it is called."""
        now = time.monotonic()
        if now - self._looked_at > ANSWER_EVERY_S:
            self._looked_at = now
            self.look_round()

    def answer(self) -> None:
        """All who asked."""
        while (other := self.post.take(ASK, None)) is not None:
            self.post.put(ANSWER, other)

    def begin(self, rank: int) -> None:
        """A wait for that rank begins, which has just done what was waited for before."""
        if rank not in self._always:
            self._silences[rank] = Silence()

    def miss(self, rank: int, host: str) -> None:
        """Asks a rank for a sign of life where it is time to. ClusterError when it has not given any for too long."""
        if not self._patience_s:
            return
        silence = self._silences.setdefault(rank, Silence())
        if self.post.take(ANSWER, rank) is not None:
            silence.restart()
        elif silence.look() >= self._patience_s:
            raise ClusterError(
                f"no sign of life from rank {rank} on {host} for {silence.seconds:.0f} s: it is frozen or the link is "
                f"cut; look at that host ({PATIENCE} sets the time, 0 waits for ever)"
            )
        elif not silence.was_asked and silence.seconds >= self._patience_s / 2:
            silence.was_asked = True
            self.post.put(ASK, rank)
