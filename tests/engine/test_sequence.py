# python -m pytest tests/engine/test_sequence.py
import pytest

from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.step import Row
from dllama_py.errors import UsageError
from tests.support.scripted import ScriptedRunner


def test_a_prompt_is_fed_in_chunks_and_only_the_last_row_is_wanted() -> None:
    runner = ScriptedRunner([9] * 20, max_rows=4, prompt_length=1)
    sequence = CachedSequence(runner, slot=2)
    assert sequence.start([5, 6, 7, 8, 9, 10]) == 0
    shapes = [step.logits.shape for step in sequence.feed([5, 6, 7, 8, 9, 10])]
    assert runner.steps == [
        [Row(5, 2, 0), Row(6, 2, 1), Row(7, 2, 2), Row(8, 2, 3)],
        [Row(9, 2, 4), Row(10, 2, 5)],
    ]
    assert shapes == [(0, 16), (1, 16)]
    assert sequence.ids == [5, 6, 7, 8, 9, 10]


def test_the_common_run_of_ids_is_kept() -> None:
    runner = ScriptedRunner([0] * 20)
    sequence = CachedSequence(runner, slot=0)
    sequence.start([1, 2, 3, 4])
    list(sequence.feed([1, 2, 3, 4]))
    assert sequence.start([1, 2, 9]) == 2
    assert (sequence.ids, runner.cuts[-1]) == ([1, 2], (0, 2))


def test_the_last_prompt_id_is_always_computed() -> None:
    runner = ScriptedRunner([0] * 20)
    sequence = CachedSequence(runner, slot=0)
    sequence.start([1, 2, 3])
    list(sequence.feed([1, 2, 3]))
    assert sequence.start([1, 2, 3]) == 2


def test_a_prompt_longer_than_the_context_is_refused_with_both_counts() -> None:
    sequence = CachedSequence(ScriptedRunner([], context=3), slot=0)
    with pytest.raises(UsageError, match="4 tokens, the context 3"):
        sequence.start([1, 2, 3, 4])
    with pytest.raises(UsageError, match="the prompt is empty"):
        sequence.start([])


def test_chunks_may_be_smaller_than_a_step() -> None:
    runner = ScriptedRunner([0] * 20, max_rows=4)
    sequence = CachedSequence(runner, slot=0, chunk_rows=1)
    sequence.start([1, 2])
    list(sequence.feed([1, 2]))
    assert [len(step) for step in runner.steps] == [1, 1]
