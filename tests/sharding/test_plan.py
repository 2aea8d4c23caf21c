# python -m pytest tests/sharding/test_plan.py
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllama_py.config import Arch, ModelConfig
from dllama_py.errors import UsageError
from dllama_py.formats.tensors import Cut, tensor_specs
from dllama_py.sharding.pieces import piece_of
from dllama_py.sharding.plan import make_plan, n_leaves, rank_counts


def config(**changes: Any) -> ModelConfig:
    """SmolLM2-135M, changed."""
    facts: dict[str, Any] = {
        "arch": Arch.LLAMA,
        "width": 576,
        "n_layers": 2,
        "n_heads": 9,
        "n_kv_heads": 3,
        "head_width": 64,
        "ffn_width": 1536,
        "vocab_size": 49152,
        "context_length": 2048,
        "norm_epsilon": 1e-5,
        "rope_theta": 1e5,
    }
    return ModelConfig(**(facts | changes))


def kv_heads(n_ranks: int, replicate_kv: bool = False, **changes: Any) -> list[list[int]]:
    return [list(shard.kv_heads) for shard in make_plan(config(**changes), n_ranks, replicate_kv)]


def test_nine_heads_on_four_ranks_fall_2_2_2_3() -> None:
    shards = make_plan(config(), 4)
    assert [list(shard.heads) for shard in shards] == [[0, 1], [2, 3], [4, 5], [6, 7, 8]]
    assert [shard.head_groups(config()) for shard in shards] == [(0, 2), (0, 1, 2), (0, 2), (0, 3)]
    assert shards[3].head_leaves == (0, 2, 6)  # blocks of 32: one head, then two


def test_kv_heads_that_ranks_share() -> None:
    assert kv_heads(4, n_heads=12, head_width=32, n_kv_heads=3) == [[0], [0, 1], [1, 2], [2]]
    assert kv_heads(4, True, n_heads=12, head_width=32, n_kv_heads=2) == [[0], [0], [1], [1]]


def test_leaves_are_at_least_8_and_a_power_of_two() -> None:
    counts = {1: 8, 3: 8, 8: 8, 9: 16, 12: 16, 32: 32}
    assert {k: n_leaves(config(n_heads=k, n_kv_heads=k)) for k in counts} == counts


@pytest.mark.parametrize(
    ("n_kv_heads", "replicate_kv", "counts"),
    [(3, False, [1, 2, 4]), (3, True, [1, 2, 4, 8]), (4, False, [1, 2, 4]), (1, False, [1]), (1, True, [1, 2, 4, 8])],
)
def test_counts_that_work(n_kv_heads: int, replicate_kv: bool, counts: list[int]) -> None:
    assert rank_counts(config(n_heads=12, n_kv_heads=n_kv_heads), replicate_kv) == counts


@pytest.mark.parametrize(
    ("n_ranks", "changes", "words"),
    [
        (3, {"n_heads": 4, "n_kv_heads": 4}, ["3 ranks", "1, 2 or 4", "--replicate-kv", "strongest host", "pipeline"]),
        (5, {"n_heads": 4, "n_kv_heads": 4}, ["5 ranks", "1, 2 or 4"]),
        (4, {"n_heads": 14, "n_kv_heads": 2}, ["4 ranks", "1 or 2 ranks"]),
        (2, {"n_heads": 4, "n_kv_heads": 4, "head_width": 16}, ["2 ranks", " o", "16 columns", "1 rank"]),
        (1, {"ffn_width": 100}, ["down", "100 columns", "whole blocks"]),
        (1, {"width": 600}, ["q, k, v", "600 columns"]),
        (1, {"n_heads": 10}, ["10 query heads", "3 KV heads"]),
    ],
)
def test_what_cannot_be_shared_is_refused_in_one_line(n_ranks: int, changes: dict[str, int], words: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        make_plan(config(**changes), n_ranks)
    message = str(refused.value)
    assert "\n" not in message
    assert [word for word in words if word not in message] == []


def test_uneven_feed_forward_runs() -> None:
    shares = [len(shard.hidden) for shard in make_plan(config(ffn_width=96), 2)]
    assert shares == [32, 64]
    shares = [len(shard.hidden) // 32 for shard in make_plan(config(n_heads=16, n_kv_heads=8, ffn_width=11008), 8)]
    assert shares == [43] * 8


SIZES = st.fixed_dictionaries(
    {
        "n_kv_heads": st.integers(1, 16),
        "group": st.integers(1, 8),
        "head_width": st.sampled_from([16, 32, 64, 80, 96, 128]),
        "ffn_width": st.integers(1, 60).map(lambda blocks: 32 * blocks),
        "vocab_size": st.integers(20, 3000),
        "experts": st.booleans(),
    }
)


@given(SIZES, st.booleans(), st.data())
def test_pieces_cover_every_tensor_and_leaves_never_move(sizes: dict[str, Any], replicate: bool, data: Any) -> None:
    group, experts = sizes.pop("group"), sizes.pop("experts")
    if experts:
        sizes |= {"arch": Arch.QWEN3_MOE, "n_experts": 2, "n_active_experts": 1, "expert_width": sizes["ffn_width"]}
    model = config(n_heads=sizes["n_kv_heads"] * group, **sizes)
    if model.q_width % 32:
        return  # o has no whole blocks; refused, as another test shows
    counts = rank_counts(model, replicate)
    plan = make_plan(model, data.draw(st.sampled_from(counts)), replicate)
    for spec in tensor_specs(model):
        if spec.cut in (Cut.OUTPUT, Cut.INPUT):
            pieces = [piece_of(spec, shard, model) for shard in plan]
            rows = sorted({row for piece in pieces if piece.blocks for row in piece.rows})
            blocks = sorted({block for piece in pieces if piece.rows for block in piece.blocks})
            assert rows == list(range(spec.shape[0]))
            assert blocks == list(range(spec.shape[1] // 32))
    whole = make_plan(model, 1)[0]
    assert _leaf_sizes([whole]) == _leaf_sizes(plan)


def _leaf_sizes(plan: list[Any]) -> list[list[int]]:
    """Blocks of every leaf in order, of o and of down."""
    borders = [[shard.head_leaves, shard.hidden_leaves] for shard in plan]
    return [[b - a for pair in borders for a, b in zip(pair[i], pair[i][1:], strict=False)] for i in range(2)]
