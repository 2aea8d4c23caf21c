from collections.abc import Iterator

import pytest

from dllama_py.kernels.team import Team


@pytest.fixture(scope="session", params=[1, 2], ids=["1_thread", "2_threads"])
def team(request: pytest.FixtureRequest) -> Iterator[Team]:
    team = Team(request.param)
    yield team
    team.close()
