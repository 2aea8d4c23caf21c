# make test-mpi-4, or: mpirun -np 4 python -m pytest --with-mpi tests/mpi/test_one_answer.py
"""The law of the house: the same bits whatever the ranks, threads, chunks, cached prefixes and neighbours.

What the whole world computes is compared with what the root computes alone in the same process.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dllama_py.engine.sequence import CachedSequence
from dllama_py.transport.comm import Comm
from tests.checkpoints import own_folder, tiny_gguf
from tests.support.engines import engine_on, fed, in_a_batch, logits_of, solo_logits

pytestmark = pytest.mark.mpi

IDS = [(29 * i * i + 11 * i + 5) % 300 for i in range(75)]
ARCHS = ("tiny-llama", "tiny-llama31", "tiny-qwen3", "tiny-qwen3moe")
WAYS = ({"n_threads": 1, "chunk_rows": 64}, {"n_threads": 2, "chunk_rows": 7}, {"n_threads": 2, "chunk_rows": 1})


@pytest.fixture
def make(comm: Comm, tmp_path: Path) -> Callable[..., Path]:
    """Makes a model at the root, which alone needs the file."""

    def at_root(maker: Callable[..., Any], name: str, **changes: Any) -> Path:
        path = tmp_path / "model"
        if comm.rank == 0:
            maker(path, name, distinct=True, **changes)
        return path

    return at_root


def check_all_ways(comm: Comm, model: Path, **settings: Any) -> None:
    """The world in every way, with and without a cached prefix, alone and among others, against the root alone."""
    alone = solo_logits(model, IDS, **settings) if comm.rank == 0 else None
    for way in WAYS:
        with engine_on(comm, model, n_slots=3, **settings, **way) as engine:
            if engine is None:
                continue
            assert alone is not None
            assert same(logits_of(engine, IDS), alone), way
            sequence = CachedSequence(engine.runner, slot=2)
            fed(sequence, IDS[:40] + [1, 2, 3])
            assert same(fed(sequence, IDS), alone[40:]), ("prefix reused", way)
            if engine.runner.max_rows >= 3:
                assert same(in_a_batch(engine, IDS[:20]), alone[:20]), ("in a batch", way)


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes() and bool(np.isfinite(a).all())


@pytest.mark.parametrize("weights", ["q40", "q80", "f16", "f32"])
@pytest.mark.parametrize("name", ARCHS)
def test_folder(comm: Comm, make: Callable[..., Path], name: str, weights: str) -> None:
    check_all_ways(comm, make(own_folder, name), weights=weights)


@pytest.mark.parametrize("kind", ["Q4_1", "BF16", "F16"])
def test_gguf(comm: Comm, make: Callable[..., Path], kind: str) -> None:
    check_all_ways(comm, make(lambda path, name, **c: tiny_gguf(path, name, kind, **c), "tiny-qwen3"))


def test_gguf_with_super_blocks_cut_between_ranks(comm: Comm, make: Callable[..., Path]) -> None:
    sizes = {"hidden_size": 256, "head_dim": 32, "intermediate_size": 256}
    check_all_ways(comm, make(lambda path, name, **c: tiny_gguf(path, name, "Q6_K", **c), "tiny-llama", **sizes))


@pytest.mark.parametrize("exchange", ["bf16", "q80"])
def test_rounded_exchange(comm: Comm, make: Callable[..., Path], exchange: str) -> None:
    model = make(own_folder, "tiny-qwen3")
    check_all_ways(comm, model, exchange=exchange)
    if comm.rank == 0:
        assert not same(solo_logits(model, IDS, exchange=exchange), solo_logits(model, IDS))


def test_half_cache_under_f32_weights(comm: Comm, make: Callable[..., Path]) -> None:
    check_all_ways(comm, make(own_folder, "tiny-llama31"), weights="f32", cache_type="f16")


@pytest.mark.parametrize(
    "sizes",
    [
        {"num_attention_heads": 12, "num_key_value_heads": 3},  # heads 3, 3, 3, 3 over KV heads 1, 2, 2, 1
        {"num_attention_heads": 9, "num_key_value_heads": 3, "hidden_size": 288},  # heads 2, 2, 2, 3
        {"num_attention_heads": 16, "num_key_value_heads": 4, "hidden_size": 160, "head_dim": 16},  # units of 2 heads
        {"intermediate_size": 96},  # 3 blocks: on 4 ranks one has none
        {"num_attention_heads": 52, "num_key_value_heads": 4},
        {"intermediate_size": 11008 // 8},  # 43 blocks
    ],
)
def test_uneven_shares(comm: Comm, make: Callable[..., Path], sizes: dict[str, int]) -> None:
    check_all_ways(comm, make(own_folder, "tiny-llama31", **sizes))


def test_more_ranks_than_kv_heads(comm: Comm, make: Callable[..., Path]) -> None:
    model = make(own_folder, "tiny-llama31", num_attention_heads=12, num_key_value_heads=2)
    check_all_ways(comm, model, replicate_kv=True)


def test_tied_head_with_the_vocabulary_cut(comm: Comm, make: Callable[..., Path]) -> None:
    model = make(own_folder, "tiny-llama31", vocab_size=314, tie_word_embeddings=True)
    check_all_ways(comm, model)


@pytest.mark.mpi(sizes=(8,))
def test_eight_kv_heads_on_eight_ranks(comm: Comm, make: Callable[..., Path]) -> None:
    model = make(own_folder, "tiny-qwen3", num_attention_heads=16, num_key_value_heads=8)
    check_all_ways(comm, model)
