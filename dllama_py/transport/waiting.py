"""When to look for a message that is waited for: often where it is about to come, seldom before that and long after.

Looking costs a core that somebody else may compute on, and every look is a call into the MPI library. Messages of a
pipeline come about as far apart as the last ones did, so most of such a wait is slept through.
"""

import os
import time
from collections import deque
from typing import Protocol

SPIN_S = 0.002
SLEEP_PART = 1 / 256  # of the time waited so far: that is how much longer a wait can take
LONGEST_SLEEP_S = 0.005
SURE_PART = 3 / 4  # of the shortest of the last waits
N_LAST = 3
SHORT_S = 0.001  # what is not longer is not worth a sleep
ROUND_S = 0.002  # between two looks at what else is to be done


class Clock(Protocol):
    """The module `time`, or one that a test moves on."""

    def monotonic(self) -> float: ...

    def sleep(self, seconds: float, /) -> None: ...


class Waiter:
    """Of one kind of message. `spin_s`: how long it is looked for without a pause, unless the last ones took long."""

    def __init__(self, spin_s: float = SPIN_S, clock: Clock = time) -> None:
        self._spin_s = spin_s
        self._clock = clock
        self._last_s: deque[float] = deque([0.0], N_LAST)
        self._started = self._rounded = 0.0
        self._sure_s = 0.0

    def begin(self) -> None:
        """Now it is waited for."""
        self._started = self._rounded = self._clock.monotonic()
        shortest_s = min(self._last_s)
        self._sure_s = SURE_PART * shortest_s if shortest_s > SHORT_S else 0.0

    def pause(self) -> bool:
        """Until the next look. -> whether it is time to do what else is to be done."""
        now = self._clock.monotonic()
        waited_s = now - self._started
        if waited_s < self._sure_s:
            self._clock.sleep(min(self._sure_s - waited_s, LONGEST_SLEEP_S))
        elif not self._sure_s and waited_s < self._spin_s:
            os.sched_yield()
        else:
            self._clock.sleep(min(waited_s * SLEEP_PART, LONGEST_SLEEP_S))
        if now - self._rounded < ROUND_S:
            return False
        self._rounded = now
        return True

    def end(self) -> None:
        """It is there."""
        self._last_s.append(self._clock.monotonic() - self._started)
