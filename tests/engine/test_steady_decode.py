# python -m pytest tests/engine/test_steady_decode.py
"""2,000 tokens of decoding: the garbage collector stays away, and memory does not grow."""

import gc
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from dllama_py.engine.collector import paused_collector
from dllama_py.engine.generate import generate
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.token_loop import Token
from dllama_py.profiler import private_bytes
from dllama_py.transport.comm import SoloComm
from tests.checkpoints import own_folder
from tests.support.collections import noted_collections
from tests.support.engines import engine_on

N_TOKENS = 2000
N_WARM = 200
BYTES_OF_IDS = 80 * N_TOKENS  # a list of the ids so far, which belongs to the sequence
NOISE_BYTES = 16 << 10
PAGES_BYTES = 4 << 20  # of the cache and the allocator, touched for the first time


@pytest.fixture
def collections() -> Iterator[list[str]]:
    with noted_collections() as notes:
        yield notes


@pytest.mark.parametrize("settings", [SamplerSettings(), SamplerSettings(temperature=0.8, top_p=0.9, seed=1)], ids=str)
def test_no_collection_and_no_growth(tmp_path: Path, collections: list[str], settings: SamplerSettings) -> None:
    model = own_folder(tmp_path / "tiny", max_position_embeddings=4096)
    with engine_on(SoloComm(), model, context=N_TOKENS + 8) as engine:
        assert engine is not None
        n_done, traced, private = 0, 0, 0
        n_collections: list[int] = []  # so far, at each token
        try:
            for event in generate(CachedSequence(engine.runner, 0), [1, 2, 3], settings, N_TOKENS, 320):
                if not isinstance(event, Token):
                    continue
                n_done += 1
                n_collections.append(len(collections))
                if n_done == N_WARM:
                    tracemalloc.start()
                    private = private_bytes()
                    traced = tracemalloc.get_traced_memory()[0]
            grown = tracemalloc.get_traced_memory()[0] - traced
        finally:
            tracemalloc.stop()
        assert n_done == N_TOKENS
        assert n_collections[0] == n_collections[-1]
        assert grown < BYTES_OF_IDS + NOISE_BYTES
        assert private_bytes() - private < PAGES_BYTES
    assert gc.isenabled()


def test_pauses_overlap() -> None:
    first, second = paused_collector(), paused_collector()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not gc.isenabled()
    second.__exit__(None, None, None)
    assert gc.isenabled()


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with paused_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_an_answer_that_is_left_lets_the_collector_run_again(tmp_path: Path) -> None:
    with engine_on(SoloComm(), own_folder(tmp_path / "tiny")) as engine:
        assert engine is not None
        answer = generate(CachedSequence(engine.runner, 0), [1, 2, 3], SamplerSettings(), 9, 320)
        while not isinstance(next(answer), Token):
            pass
        assert not gc.isenabled()
        answer.close()
        assert gc.isenabled()
