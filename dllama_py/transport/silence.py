"""How long one rank has kept another waiting, and how long it may.

A frozen rank or a cut link makes no error: the others would wait for ever. So a wait for one that must come (within a
step, say) has an end. Whoever has waited for half of it asks for a sign of life, which a rank that is itself waiting
gives, or one that computes, at its next message; so only a rank that neither waits nor comes is held to be lost, and
the innocent ones between it and others are not. Loading, compiling and idling may take any time.
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
ANSWER_EVERY_S = 0.5  # of a rank that does not wait


def patience_of(environment: Mapping[str, str]) -> float:
    """Seconds that a rank within a step waits for one without a sign of life; 0: for ever."""
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
    """Of life, between the ranks of a job. `patience_s`: 0 for ever."""

    def __init__(self, post: Post, patience_s: float) -> None:
        self._post = post
        self._patience_s = patience_s
        self._answered_at = time.monotonic()

    def answer(self) -> None:
        """All who asked."""
        while (other := self._post.take(ASK, None)) is not None:
            self._post.put(ANSWER, other)

    def answer_now_and_then(self) -> None:
        """The same at little cost, however often it is called."""
        now = time.monotonic()
        if now - self._answered_at > ANSWER_EVERY_S:
            self._answered_at = now
            self.answer()

    def miss(self, silence: Silence, rank: int, host: str) -> None:
        """Asks a rank for a sign of life where it is time to. ClusterError when it has not given any for too long."""
        if not self._patience_s:
            return
        if self._post.take(ANSWER, rank) is not None:
            silence.restart()
        elif silence.look() >= self._patience_s:
            raise ClusterError(
                f"no sign of life from rank {rank} on {host} for {silence.seconds:.0f} s: it is frozen or the link is "
                f"cut; look at that host ({PATIENCE} sets the time, 0 waits for ever)"
            )
        elif not silence.was_asked and silence.seconds >= self._patience_s / 2:
            silence.was_asked = True
            self._post.put(ASK, rank)
