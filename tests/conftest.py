"""What every room's tests may ask for."""

import os
import signal
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A shell starts what runs in the background, or under nohup, with SIGINT ignored, and every process started from there
# inherits it: tests of Ctrl-C would wait for an interrupt that never comes.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# No test asserts a time: on a busy machine any example may take long. Examples are the same in every run; others are
# tried where time is given to them (tests/fuzzing.py).
settings.register_profile(
    "steady",
    deadline=None,
    database=None,
    derandomize="DLLAMA_FUZZ_SECONDS" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("steady")


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """SmolLM2-135M-Instruct as Q4_1 GGUF, fetched into models/ if it is not there yet (98 MB)."""
    from dllama_py.cluster.catalogue import find
    from dllama_py.cluster.fetch import fetch_known
    from dllama_py.progress import unwatched
    from tests.support.hub import NoHub

    return fetch_known(find("smollm2_135m"), Path(__file__).parent.parent / "models", NoHub(), unwatched).model


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was skipped, and why, in one line; kept for the end of `make test`, which runs pytest several times."""
    reports = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)  # (path, line, reason)
    if not reasons:
        return
    line = "skipped: " + "; ".join(f"{count} tests ({reason})" for reason, count in reasons.items())
    terminalreporter.write_line(line)
    if kept := os.environ.get("DLLAMA_SKIPPED_TESTS"):
        with open(kept, "a") as file:
            file.write(line + "\n")
