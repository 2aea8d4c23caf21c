# make test-mpi-4, or: mpirun -np 4 python -m pytest --with-mpi tests/mpi/test_one_answer.py
"""The law of the house: the same bits whatever the ranks, threads, chunks, cached prefixes and neighbours.

What the whole world computes is compared with what the root computes alone in the same process. Every architecture and
every type is computed by every world; every pair of them by two ranks, since neither knows of the other.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dllama_py.boot import Engine
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.transport.comm import Comm, SoloComm
from tests.checkpoints import own_folder, tiny_gguf
from tests.gguf_models import tiny_gguf_model
from tests.support.engines import Logits, engine_on, fed, ids_of, in_batches, logits_of, solo_logits

pytestmark = pytest.mark.mpi

IDS = [(29 * i * i + 11 * i + 5) % 300 for i in range(75)]  # reaches into a second page of the cache
OTHERS = [(17 * i * i + 3 * i + 100) % 300 for i in range(31)], [(7 * i + 200) % 300 for i in range(13)]
TEXTS = [OTHERS[0], IDS, OTHERS[1]]
STEPS = (
    (20, 0, 9),  # two prompts of different lengths
    (1, 40, 1),  # a part of the third one's prompt beside two that decode
    (1, 22, 1),
    (1, 1, 1),
    (5, 1, 1),  # drafted tokens are checked
    (3, 11, 0),
)
ARCHS = ("tiny-llama", "tiny-llama31", "tiny-qwen3", "tiny-qwen3moe")


@pytest.fixture
def make(comm: Comm, tmp_path: Path) -> Callable[..., Path]:
    """Makes a model at the root, which alone needs the file."""

    def at_root(maker: Callable[..., Any], name: str, **changes: Any) -> Path:
        path = tmp_path / "model"
        if comm.rank == 0:
            maker(path, name, distinct=True, **changes)
        return path

    return at_root


def check_all_ways(
    comm: Comm, model: Path, threads: Sequence[int] = (), chunks: Sequence[int] = (64, 7), **settings: Any
) -> None:
    """The world on so many threads a rank, in chunks of so many rows, against the root alone on one thread.

    Unless told otherwise on two threads, where these do not wait for cores most of the time.
    """
    threads = threads or ((2,) if comm.size < 4 else (1,))
    alone = solo_logits(model, TEXTS, **settings) if comm.rank == 0 else []
    for n_threads in threads:
        with engine_on(comm, model, n_slots=3, n_threads=n_threads, **settings) as engine:
            if engine is None:
                continue
            for chunk_rows in chunks:
                assert same(logits_of(engine, IDS, chunk_rows=chunk_rows), alone[1]), f"chunks of {chunk_rows}"
            check_prefix(engine, alone[1])
            check_batches(engine, alone)


def check_prefix(engine: Engine, alone: Logits) -> None:
    """Ids one by one, after a prefix that another text has left."""
    other, sequence = CachedSequence(engine.runner, slot=2), CachedSequence(engine.runner, slot=2, chunk_rows=1)
    fed(other, IDS[:60] + [1, 2, 3])
    sequence.ids = other.ids
    assert same(fed(sequence, IDS), alone[60:]), "one by one after a prefix"


def check_batches(engine: Engine, alone: Sequence[Logits]) -> None:
    for found, wanted in zip(in_batches(engine, TEXTS, STEPS), alone, strict=True):
        for position, logits in found.items():
            assert same(logits, wanted[position]), f"in a batch, position {position}"


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes() and bool(np.isfinite(a).all())


@pytest.mark.parametrize(("name", "weights"), list(zip(ARCHS, ("f16", "q80", "f32", "q40"), strict=True)))
def test_every_cut_on_every_number_of_threads(comm: Comm, make: Callable[..., Path], name: str, weights: str) -> None:
    check_all_ways(comm, make(own_folder, name), threads=(1, 2), weights=weights)


@pytest.mark.mpi(sizes=(2,))
@pytest.mark.parametrize("weights", ["q40", "q80", "f16", "f32"])
@pytest.mark.parametrize("name", ARCHS)
def test_folder(comm: Comm, make: Callable[..., Path], name: str, weights: str) -> None:
    check_all_ways(comm, make(own_folder, name), weights=weights)


@pytest.mark.parametrize(
    ("name", "weights"),
    [
        ("tiny-mixtral", "q40"),
        ("tiny-qwen2", "q80"),
        ("tiny-qwen2moe", "q40"),
        ("tiny-qwen2moe", "f32"),
        ("tiny-biased-llama", "f16"),
        ("tiny-yarn", "q40"),
    ],
)
def test_other_architectures(comm: Comm, make: Callable[..., Path], name: str, weights: str) -> None:
    check_all_ways(comm, make(own_folder, name), weights=weights)


def test_a_bias_is_added_once_whatever_is_exchanged(comm: Comm, make: Callable[..., Path]) -> None:
    check_all_ways(comm, make(own_folder, "tiny-biased-llama"), exchange="q80")


@pytest.mark.mpi(sizes=(2,))
@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0", "BF16", "F16"])
@pytest.mark.parametrize("name", ["tiny-llama31", "tiny-qwen3", "tiny-qwen3moe"])
def test_gguf(comm: Comm, make: Callable[..., Path], name: str, kind: str) -> None:
    check_all_ways(comm, make(lambda path, name, **c: tiny_gguf(path, name, kind, **c), name))


@pytest.mark.parametrize("name", ["gemma3", "gpt-oss"])
def test_windows(comm: Comm, make: Callable[..., Path], name: str) -> None:
    check_all_ways(comm, make(lambda path, name, **_: tiny_gguf_model(path, name, attention__sliding_window=20), name))


@pytest.mark.parametrize(
    ("name", "kind", "kinds"),
    [
        ("tiny-llama", "Q6_K", {"attn_q": "Q5_1", "attn_v": "Q4_1", "ffn_gate": "Q5_0", "ffn_up": "BF16"}),
        ("tiny-llama31", "Q4_K", {"attn_v": "Q6_K", "attn_output": "Q5_K", "ffn_down": "Q5_K"}),
        ("tiny-qwen3", "Q3_K", {"attn_v": "Q2_K", "attn_output": "Q4_K", "ffn_up": "Q8_0"}),
        ("tiny-qwen3moe", "Q6_K", {"attn_output": "Q3_K", "ffn_down_exps": "Q2_K", "ffn_up_exps": "Q4_K"}),
        ("tiny-llama", "IQ2_XXS", {"attn_v": "Q4_K", "attn_output": "Q2_K", "ffn_down": "IQ3_S"}),
        ("tiny-qwen3moe", "IQ4_XS", {"attn_output": "IQ2_S", "ffn_down_exps": "MXFP4"}),
    ],
    ids=["q6_k", "q4_k", "q3_k", "q2_k", "iq2_xxs", "iq4_xs"],
)
def test_gguf_with_super_blocks_cut_between_ranks(
    comm: Comm, make: Callable[..., Path], name: str, kind: str, kinds: dict[str, str]
) -> None:
    """768 feed-forward columns: 3 blocks of 32 a leaf, so that leaves and ranks begin anywhere in a super-block."""
    sizes = {"hidden_size": 256, "head_dim": 32, "intermediate_size": 768, "moe_intermediate_size": 768}
    check_all_ways(comm, make(lambda path, name, **c: tiny_gguf(path, name, kind, kinds=kinds, **c), name, **sizes))


@pytest.mark.parametrize("name", ARCHS)
def test_generated_ids(comm: Comm, make: Callable[..., Path], name: str) -> None:
    """Sampled ones are the same in two runs; greedy ones reach far behind the prompt."""
    model = make(own_folder, name)
    sampled, greedy = SamplerSettings(temperature=0.8, top_p=0.9, seed=1), SamplerSettings()
    alone = {}
    if comm.rank == 0:
        with engine_on(SoloComm(), model) as engine:
            assert engine is not None
            alone = {wish: ids_of(engine, IDS[:16], wish, 64) for wish in (sampled, greedy)}
        assert len(alone[sampled]) == len(alone[greedy]) == 64
        assert alone[sampled] != alone[greedy]
    with engine_on(comm, model) as engine:
        if engine is not None:
            for wish in (sampled, sampled, greedy):
                assert ids_of(engine, IDS[:16], wish, 64) == alone[wish]


@pytest.mark.parametrize("exchange", ["bf16", "q80"])
def test_rounded_exchange(comm: Comm, make: Callable[..., Path], exchange: str) -> None:
    model = make(own_folder, "tiny-qwen3")
    check_all_ways(comm, model, threads=(1, 2), exchange=exchange)
    if comm.rank == 0:
        rounded, exact = solo_logits(model, [IDS], exchange=exchange), solo_logits(model, [IDS])
        assert not same(rounded[0], exact[0])


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
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("tiny-llama31", {"num_attention_heads": 8, "num_key_value_heads": 8}),
        ("tiny-qwen3", {"num_attention_heads": 16, "num_key_value_heads": 8}),
        ("tiny-llama31", {"num_attention_heads": 52, "num_key_value_heads": 13, "head_dim": 16}),  # 16 leaves
        ("tiny-llama31", {"num_key_value_heads": 8, "intermediate_size": 11008 // 8}),
    ],
)
def test_eight_ranks(comm: Comm, make: Callable[..., Path], name: str, sizes: dict[str, int]) -> None:
    check_all_ways(comm, make(own_folder, name, **sizes))


@pytest.mark.mpi(sizes=(8,))
@pytest.mark.parametrize("heads", [12, 52])
def test_eight_ranks_with_few_kv_heads(comm: Comm, make: Callable[..., Path], heads: int) -> None:
    model = make(own_folder, "tiny-llama31", num_attention_heads=heads, num_key_value_heads=2)
    check_all_ways(comm, model, replicate_kv=True)
