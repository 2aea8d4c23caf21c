"""What every room's tests may ask for."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

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
