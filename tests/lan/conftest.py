"""The test networks, where this machine can have them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.lan.hosts import Lan, hindrance, lan


@pytest.fixture(scope="session")
def _possible() -> None:
    """Skips with the reason where there can be no such hosts."""
    reason = hindrance()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def network(_possible: None) -> Iterator[Callable[[int], Lan]]:
    """Brings up so many hosts; they are gone after the test."""
    with ExitStack() as stack:
        yield lambda n_hosts: stack.enter_context(lan(n_hosts))
