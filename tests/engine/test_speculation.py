# python -m pytest tests/engine/test_speculation.py
from itertools import repeat

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from dllama_py.engine.generate import generate
from dllama_py.engine.lookup import Lookup
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.speculation import NO_SPECULATION, Speculating, Speculation
from dllama_py.engine.token_loop import Token
from tests.support.drafting import Clairvoyant, Written
from tests.support.remembering import N_VOCAB, RememberingRunner

GREEDY = SamplerSettings()
SAMPLED = (GREEDY, SamplerSettings(0.8, 0, 0.9, 3), SamplerSettings(0.8, 3, 0.9, 3), SamplerSettings(1.3, 0, 1.0, 3))
PROMPT = [1, 2, 3]


def run(
    runner: RememberingRunner,
    speculation: Speculating = NO_SPECULATION,
    n_tokens: int = 40,
    sampling: SamplerSettings = GREEDY,
) -> list[int]:
    events = generate(CachedSequence(runner, 0), PROMPT, sampling, n_tokens, N_VOCAB, speculation)
    return [event.id for event in events if isinstance(event, Token)]


@pytest.mark.parametrize("sampling", SAMPLED)
@settings(max_examples=12)
@given(drafts=st.lists(st.lists(st.integers(0, N_VOCAB - 1), max_size=9), max_size=40))
def test_ids_are_the_same_whatever_is_drafted(sampling: SamplerSettings, drafts: list[list[int]]) -> None:
    speculation = Written(iter([*drafts, *[[]] * 40]))
    assert run(RememberingRunner(), speculation, sampling=sampling) == run(RememberingRunner(), sampling=sampling)


@settings(max_examples=50)
@given(n_tokens=st.integers(0, 30), max_rows=st.integers(1, 9), context=st.integers(3, 40), right=st.integers(0, 255))
def test_no_row_is_beyond_the_limits(n_tokens: int, max_rows: int, context: int, right: int) -> None:
    """The stand-in refuses rows beyond the context and steps that are too long."""
    plain = run(RememberingRunner(context=context), n_tokens=n_tokens)
    runner = RememberingRunner(max_rows=max_rows, context=context)
    drafter = Clairvoyant([*plain, *repeat(0, 9)], lambda at: bool(right >> at % 8 & 1))
    assert run(runner, Speculation(drafter), n_tokens) == plain
    assert sum(runner.n_rows) <= (3 + n_tokens) * max(max_rows, 1)


def test_a_draft_that_is_always_right_saves_steps() -> None:
    plain = run(RememberingRunner())
    runner = RememberingRunner()
    speculation = Speculation(Clairvoyant(plain, lambda at: True))
    assert run(runner, speculation) == plain
    assert runner.n_rows == [3, 1, 1, 9, 16, 12]
    assert (speculation.counts.n_steps, speculation.counts.n_drafted, speculation.counts.n_accepted) == (5, 34, 34)


def test_a_draft_that_is_always_wrong_is_soon_given_up() -> None:
    plain = run(RememberingRunner(context=512), n_tokens=400)
    runner = RememberingRunner(context=512, seconds=(1.0, 1.2, 1.3, 1.4))
    assert run(runner, Speculation(Clairvoyant(plain, lambda at: False)), n_tokens=400) == plain
    assert sum(n > 1 for n in runner.n_rows[:50]) <= 10
    assert sum(n > 1 for n in runner.n_rows[50:]) <= 6


def test_a_drafter_that_is_good_again_is_noticed() -> None:
    """Guesses that cost nothing are looked at even while none is checked."""
    plain = run(RememberingRunner(context=512), n_tokens=400)
    runner = RememberingRunner(context=512, seconds=(1.0, 1.2, 1.3, 1.4))
    assert run(runner, Speculation(Clairvoyant(plain, lambda at: at >= 200)), n_tokens=400) == plain
    assert 200 < len(runner.n_rows) < 260


def test_rows_that_are_dear_are_not_spent() -> None:
    plain = run(RememberingRunner(context=512), n_tokens=200)
    runner = RememberingRunner(context=512, seconds=tuple(range(1, 17)))
    assert run(runner, Speculation(Clairvoyant(plain, lambda at: at % 2 == 0)), n_tokens=200) == plain
    assert sum(n > 1 for n in runner.n_rows[1:]) <= 4


def test_guesses_that_cost_more_than_they_give_are_not_made() -> None:
    plain = run(RememberingRunner(context=512), n_tokens=300)
    drafter = Clairvoyant(plain, lambda at: True, guess_s=2.0)
    assert run(RememberingRunner(context=512), Speculation(drafter), n_tokens=300) == plain
    assert drafter.n_guesses == 0


def test_bad_guesses_that_cost_something_are_tried_again_only_now_and_then() -> None:
    plain = run(RememberingRunner(context=1024), n_tokens=900)
    drafter = Clairvoyant(plain, lambda at: False, guess_s=0.2)
    assert run(RememberingRunner(context=1024), Speculation(drafter), n_tokens=900) == plain
    assert 10 < drafter.n_guesses < 60


def test_now_and_then_a_step_is_plain_to_know_what_that_takes() -> None:
    plain = run(RememberingRunner(context=1024), n_tokens=900)
    runner = RememberingRunner(context=1024, max_rows=4)
    speculation = Speculation(Clairvoyant(plain, lambda at: True))
    run(runner, speculation, n_tokens=900)
    assert [at for at, n in enumerate(runner.n_rows) if n == 1] == [1, 2, 67, 132, 197]


def test_of_the_ids_of_a_step_the_first_bears_its_cost() -> None:
    plain = run(RememberingRunner())
    events = generate(CachedSequence(RememberingRunner(), 0), PROMPT, GREEDY, 20, N_VOCAB, Written(repeat(plain[1:3])))
    costs = [event.cost.n_rows for event in events if isinstance(event, Token)]
    assert costs[:4] == [3, 3, 0, 0]


class Round(RememberingRunner):
    """Says 0, 1, 2, 0, 1, 2, ... without end."""

    def _logits(self, position: int) -> NDArray[np.float64]:
        return np.eye(N_VOCAB)[position % 3]


def test_a_text_that_goes_round_is_looked_up() -> None:
    runner = Round()
    assert run(runner, Speculation(Lookup())) == [i % 3 for i in range(2, 42)]
    assert len(runner.n_rows) < 12
