# python -m pytest tests/test_loading.py
import pytest

from dllama_py import loading
from dllama_py.cluster.free_memory import FreeMemory

GB = 1_000_000_000


@pytest.mark.parametrize(
    ("host", "container", "helpers"),
    [(64 * GB, None, 3), (64 * GB, GB // 2, 0), (GB, None, 1), (None, None, 3), (64 * GB, 64 * GB, 3)],
)
def test_helpers_fit_into_the_memory_of_the_container_too(
    monkeypatch: pytest.MonkeyPatch, host: int | None, container: int | None, helpers: int
) -> None:
    monkeypatch.setattr(loading, "free_memory", lambda: FreeMemory(host, container, None))
    assert loading._n_helpers(n_threads=8) == helpers
