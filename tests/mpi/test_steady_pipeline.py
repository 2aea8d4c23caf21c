# mpirun -np 2 python -m pytest --with-mpi tests/mpi/test_steady_pipeline.py
"""2,000 tokens through two stages: no rank's garbage collector runs, and no rank's memory grows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from dllama_py.engine.generate import generate
from dllama_py.engine.leader import _Leader
from dllama_py.engine.lookup import Lookup
from dllama_py.engine.pipeline import Heard
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.speculation import NO_SPECULATION, Speculating, Speculation
from dllama_py.engine.token_loop import Token
from dllama_py.settings import PipelineSettings
from dllama_py.transport.comm import Comm
from tests.checkpoints import tiny_gguf
from tests.support.collections import noted_collections
from tests.support.engines import engine_on

pytestmark = pytest.mark.mpi(sizes=(2,))

N_TOKENS = 2000
N_WARM = 200
PAGES_BYTES = 4 << 20  # of the cache and the allocator, touched for the first time


@pytest.fixture
def collections() -> Iterator[list[str]]:
    with noted_collections() as notes:
        yield notes


@pytest.mark.parametrize("speculation", [NO_SPECULATION, Speculation(Lookup())], ids=["plain", "ahead"])
def test_no_collection_and_no_growth(
    comm: Comm, tmp_path: Path, collections: list[str], monkeypatch: pytest.MonkeyPatch, speculation: Speculating
) -> None:
    n_collections: list[int] = []  # so far, at each token at the root, at each message elsewhere
    obey = _Leader.obey

    def noted(leader: _Leader, heard: Heard) -> bool:
        n_collections.append(len(collections))
        return obey(leader, heard)

    monkeypatch.setattr(_Leader, "obey", noted)
    path = tmp_path / "model.gguf"
    if comm.rank == 0:
        tiny_gguf(path, max_position_embeddings=4096)
    with engine_on(comm, path, context=N_TOKENS + 8, pipeline=PipelineSettings(split="1,1")) as engine:
        if engine is not None:
            warm: list[tuple[int, int]] = []
            sequence = CachedSequence(engine.runner, 0)
            for event in generate(sequence, [1, 2, 3], SamplerSettings(), N_TOKENS, 320, speculation):
                n_collections += [len(collections)] if isinstance(event, Token) else []
                if len(n_collections) == N_WARM and not warm:
                    warm = engine.runner.memory()
            for (before, _), (after, _) in zip(warm, engine.runner.memory(), strict=True):
                assert after - before < PAGES_BYTES
    assert len(n_collections) >= (N_TOKENS if comm.rank == 0 or speculation is NO_SPECULATION else N_TOKENS // 20)
    assert n_collections[0] == n_collections[-1]
