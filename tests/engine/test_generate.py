# python -m pytest tests/engine/test_generate.py
from dllama_py.engine.generate import generate
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.token_loop import PromptChunk, Token
from tests.support.scripted import ScriptedRunner

GREEDY = SamplerSettings()


def generated(runner: ScriptedRunner, prompt: list[int], n_tokens: int) -> list[int]:
    events = generate(CachedSequence(runner, 0), prompt, GREEDY, n_tokens, 16)
    return [event.id for event in events if isinstance(event, Token)]


def test_ids_follow_the_logits_of_the_row_before() -> None:
    assert generated(ScriptedRunner([7, 3, 12, 1], prompt_length=3), [1, 2, 3], 4) == [7, 3, 12, 1]


def test_the_last_token_is_not_fed() -> None:
    runner = ScriptedRunner([7, 3, 12])
    generated(runner, [1], 3)
    assert [[row.id for row in step] for step in runner.steps] == [[1], [7], [3]]


def test_generation_ends_where_the_context_does() -> None:
    assert generated(ScriptedRunner([4] * 9, context=5, prompt_length=3), [1, 2, 3], 100) == [4, 4, 4]


def test_reused_ids_are_told_with_every_chunk() -> None:
    runner = ScriptedRunner([4] * 20, max_rows=2)
    sequence = CachedSequence(runner, 0)
    list(generate(sequence, [1, 2, 3], GREEDY, 1, 16))
    events = generate(sequence, [1, 2, 8, 9, 10], GREEDY, 1, 16)
    assert [event.reused for event in events if isinstance(event, PromptChunk)] == [2, 2]
