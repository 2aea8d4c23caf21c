# python -m pytest tests/engine/test_draft_model.py
from collections.abc import Sequence
from itertools import islice

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dllama_py.engine.draft_model import SUPPOSED_S, DraftModel
from dllama_py.engine.generate import generate
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.speculation import NO_SPECULATION, Speculating, Speculation
from dllama_py.engine.token_loop import Token
from tests.support.remembering import N_VOCAB, RememberingRunner

GREEDY = SamplerSettings()
MANNERS = (GREEDY, SamplerSettings(0.8, 0, 0.9, 3), SamplerSettings(0.8, 3, 1.0, 3), SamplerSettings(1.3, 0, 1.0, 3))
PROMPT = [1, 2, 3]

few_ids = st.lists(st.integers(0, N_VOCAB - 1), min_size=1, max_size=8)


def run(manner: SamplerSettings, speculation: Speculating = NO_SPECULATION, n_tokens: int = 30) -> list[int]:
    runner = RememberingRunner(seconds=(1.0, 1.1, 1.2, 1.3))
    events = generate(CachedSequence(runner, 0), PROMPT, manner, n_tokens, N_VOCAB, speculation)
    return [event.id for event in events if isinstance(event, Token)]


def guessed(drafter: DraftModel, n: int, ahead: Sequence[int] = ()) -> list[int]:
    return [guess.id for guess in islice(drafter.guesses(ahead), n)]


@pytest.mark.parametrize("manner", MANNERS)
def test_the_same_model_says_the_same_at_any_temperature(manner: SamplerSettings) -> None:
    """So it draws by the keys of the large model."""
    speculation = Speculation(DraftModel(RememberingRunner(seconds=(0.1,)), manner, N_VOCAB))
    assert run(manner, speculation) == run(manner)
    assert speculation.counts.n_accepted == speculation.counts.n_drafted > 15


@pytest.mark.parametrize("manner", MANNERS)
def test_another_model_changes_no_id(manner: SamplerSettings) -> None:
    speculation = Speculation(DraftModel(RememberingRunner(seconds=(0.1,), noise=0.8), manner, N_VOCAB))
    assert run(manner, speculation) == run(manner)
    assert 0 < speculation.counts.n_accepted < speculation.counts.n_drafted


@settings(max_examples=40)
@given(prompts=st.lists(few_ids, min_size=1, max_size=3), rest=few_ids, ahead=st.lists(st.integers(0, 7), max_size=4))
def test_what_it_said_before_does_not_matter(prompts: list[list[int]], rest: list[int], ahead: list[int]) -> None:
    used = DraftModel(RememberingRunner(), GREEDY, N_VOCAB)
    for prompt in prompts:
        used.start(prompt)
        for id in rest:
            guessed(used, id)
            guessed(used, 2, ahead[:id])
            used.add(id)
    fresh = DraftModel(RememberingRunner(), GREEDY, N_VOCAB)
    fresh.start([*prompts[-1], *rest])
    assert guessed(used, 3, ahead) == guessed(fresh, 3, ahead)
    again = guessed(fresh, 3, ahead)
    assert again == guessed(fresh, 3, ahead)


def test_guesses_that_were_right_are_not_computed_again() -> None:
    runner = RememberingRunner()
    drafter = DraftModel(runner, GREEDY, N_VOCAB)
    drafter.start(PROMPT)
    first, second, third = guessed(drafter, 3)
    drafter.add(first)
    drafter.add(second)
    guessed(drafter, 1)
    drafter.add((third + 1) % N_VOCAB)
    guessed(drafter, 1)
    assert runner.n_rows == [3, 1, 1, 1, 1]


def test_it_is_silent_where_it_cannot_follow() -> None:
    short = DraftModel(RememberingRunner(context=4), GREEDY, N_VOCAB)
    short.start([1, 2, 3, 4, 5])
    assert guessed(short, 1) == []
    short.start([1, 2, 3])
    assert len(guessed(short, 9)) == 2, "the last without being fed itself"
    short.add(4)
    assert len(guessed(short, 9)) == 1
    small = DraftModel(RememberingRunner(), GREEDY, n_tokens=4)
    small.start([1, 7])
    assert guessed(small, 1) == []


def test_its_chance_is_its_share_of_the_sum() -> None:
    drafter = DraftModel(RememberingRunner(), GREEDY, N_VOCAB)
    drafter.start(PROMPT)
    chances = [guess.chance for guess in islice(drafter.guesses(), 20)]
    assert all(1 / N_VOCAB < chance < 1 for chance in chances)


def test_it_learns_what_a_guess_costs() -> None:
    drafter = DraftModel(RememberingRunner(seconds=(0.25, 9.0)), GREEDY, N_VOCAB)
    drafter.start(PROMPT)
    assert drafter.guess_s == SUPPOSED_S
    guessed(drafter, 3)
    assert drafter.guess_s == 0.25, "of one row; the prompt is not a guess"
