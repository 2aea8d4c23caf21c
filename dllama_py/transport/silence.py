"""How long one rank has kept another waiting, and how long it may."""

import math
import time
from collections.abc import Mapping

from dllama_py.errors import UsageError

PATIENCE = "DLLAMA_PATIENCE_S"
DEFAULT_PATIENCE_S = 60.0
LONGEST_LOOK_S = 0.5


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
