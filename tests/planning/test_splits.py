# python -m pytest tests/planning/test_splits.py
"""What --split accepts, how ratios are rounded, and what is refused with the layers it is about."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dllama_py.errors import UsageError
from dllama_py.planning.splits import check_ranges, proportional, read_split


def test_counts_are_taken_as_they_are() -> None:
    assert read_split("12,8,8", 28, 3) == (12, 8, 8)
    assert read_split("28,0", 28, 2) == (28, 0)
    assert read_split("auto", 28, 3) is None


def test_ratios_give_whole_layers() -> None:
    assert read_split("6:4", 30, 2) == (18, 12)
    assert read_split("1:1:1", 28, 3) == (10, 9, 9)
    assert read_split("0.5:1.5", 8, 2) == (2, 6)
    assert read_split("1000:1", 28, 2) == (27, 1)
    assert read_split("100:1:1:1", 4, 4) == (1, 1, 1, 1)


@given(st.lists(st.fractions(Fraction(1, 100), 100), min_size=1, max_size=6), st.integers(0, 60))
def test_ratios_lose_no_layer_and_leave_nobody_out(ratios: list[Fraction], spare: int) -> None:
    counts = proportional(ratios, len(ratios) + spare)
    assert sum(counts) == len(ratios) + spare and min(counts) >= 1
    for i, j in ((i, j) for i in range(len(ratios)) for j in range(len(ratios)) if ratios[i] > ratios[j]):
        assert counts[i] >= counts[j]


@pytest.mark.parametrize(
    ("text", "n_stages", "message"),
    [
        ("12,8,7", 3, "--split 12,8,7: 27 layers of 28; layer 27 is in no stage, add them to one"),
        ("12,12,12", 3, "--split 12,12,12: 36 layers; the model has 28, layers 28 to 35 are not there: take them away"),
        ("14,14", 3, "--split 14,14: 2 stages are given, there are 3; expected one number for each"),
        ("6:4", 3, "--split 6:4: 2 stages are given, there are 3; expected one number for each"),
        ("half", 2, "--split half: expected auto, layers of each stage as 12,8,8, or ratios as 6:4"),
        ("6:-4", 2, "--split 6:-4: expected auto, layers of each stage as 12,8,8, or ratios as 6:4, numbers above 0"),
        ("6:0", 2, "--split 6:0: expected auto, layers of each stage as 12,8,8, or ratios as 6:4, numbers above 0"),
        ("9999999999,1", 2, "--split 9999999999,1: expected auto, layers of each stage as 12,8,8, or ratios as 6:4"),
        ("14,,14", 3, "--split 14,,14: expected auto, layers of each stage as 12,8,8, or ratios as 6:4"),
        (
            "auto",
            29,
            "29 stages are wanted of a model of 28 layers; expected at least one layer each: use at most 28 "
            "(-np, --stages)",
        ),
    ],
)
def test_refusals(text: str, n_stages: int, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_split(text, 28, n_stages)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("ranges", "message"),
    [
        ([range(12), range(14, 28)], "layers 12 to 13 are in no stage"),
        ([range(12), range(11, 28)], "layer 11 is in stage 1 and in one before it"),
        ([range(12), range(12, 27)], "layer 27 is in no stage"),
        ([range(12), range(12, 30)], "layers 28 to 29 are not in the model, which has 28 layers"),
        ([range(1, 28)], "layer 0 is in no stage"),
    ],
)
def test_ranges_with_gaps_and_overlaps(ranges: list[range], message: str) -> None:
    with pytest.raises(UsageError, match=f"^plan.json: {message}"):
        check_ranges(ranges, 28, "plan.json")
    check_ranges([range(12), range(0), range(12, 28)], 28, "plan.json")
