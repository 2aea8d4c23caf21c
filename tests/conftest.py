"""What every room's tests may ask for."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def smollm2_gguf() -> Path:
    """SmolLM2-135M-Instruct as Q4_1 GGUF, fetched into models/ if it is not there yet (98 MB)."""
    from dllama_py.cluster import catalogue

    return catalogue.fetch(catalogue.find("smollm2_135m"), Path(__file__).parent.parent / "models")
