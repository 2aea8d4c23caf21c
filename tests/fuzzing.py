"""How long tests with random input last: one round, or the seconds that DLLAMA_FUZZ_SECONDS says."""

import os
import time
from collections.abc import Callable


def for_some_time(check: Callable[[], None]) -> None:
    """Runs a hypothesis test once, or again and again with other examples."""
    end = time.monotonic() + float(os.environ.get("DLLAMA_FUZZ_SECONDS", "0"))
    check()
    while time.monotonic() < end:
        check()
