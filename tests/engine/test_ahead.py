# python -m pytest tests/engine/test_ahead.py
"""Steps that are sent ahead into a pipeline: the same ids, sooner where guesses are right, hardly later where not."""

from collections.abc import Callable
from itertools import islice, repeat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dllama_py.engine.ahead import AheadShares
from dllama_py.engine.generate import generate
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.speculation import NO_SPECULATION, Speculating, Speculation
from dllama_py.engine.step import Steps
from dllama_py.engine.token_loop import Token
from tests.support.drafting import Clairvoyant
from tests.support.remembering import N_VOCAB, RememberingRunner
from tests.support.stages import Pipe

GREEDY, SAMPLED = SamplerSettings(), SamplerSettings(0.8, 0, 0.9, 3)
PROMPT = [1, 2, 3]
SECONDS = (1.0, 1.2, 1.3, 1.4)


def pipe(n_stages: int = 2, hop_s: float = 0.0, context: int = 512, max_rows: int = 64) -> Pipe:
    return Pipe(RememberingRunner(max_rows, context, SECONDS), n_stages, n_stages + 2, hop_s)


def run(
    runner: Pipe, speculation: Speculating = NO_SPECULATION, n_tokens: int = 200, sampling: SamplerSettings = GREEDY
) -> list[int]:
    events = generate(CachedSequence(runner, 0), PROMPT, sampling, n_tokens, N_VOCAB, speculation)
    return [event.id for event in events if isinstance(event, Token)]


def guessing(plain: list[int], is_right: Callable[[int], bool], guess_s: float = 0.0) -> Speculation:
    return Speculation(Clairvoyant([*plain, *repeat(0, 20)], is_right, guess_s))


@pytest.mark.parametrize("sampling", [GREEDY, SAMPLED])
@settings(max_examples=20)
@given(
    right=st.integers(0, 2**16 - 1),
    n_stages=st.sampled_from([2, 3, 5]),
    hop_s=st.sampled_from([0.0, 0.1, 2.0]),
    n_tokens=st.integers(1, 70),
    context=st.integers(20, 80),
    max_rows=st.integers(1, 20),
)
def test_ids_are_the_same_whatever_is_sent_ahead(
    sampling: SamplerSettings, right: int, n_stages: int, hop_s: float, n_tokens: int, context: int, max_rows: int
) -> None:
    """The stand-ins refuse rows beyond the context, a step that is too long, a hole, and too many steps under way."""
    plain = run(pipe(1, context=context), NO_SPECULATION, n_tokens, sampling)
    speculation = guessing(plain, lambda at: bool(right >> at % 16 & 1))
    assert run(pipe(n_stages, hop_s, context, max_rows), speculation, n_tokens, sampling) == plain


@pytest.mark.parametrize(("n_stages", "hop_s", "gain"), [(2, 0.0, 1.7), (5, 0.0, 2.5), (2, 1.0, 2.5)])
def test_stages_work_at_the_same_time_where_guesses_are_right(n_stages: int, hop_s: float, gain: float) -> None:
    """One guess a step, so that nothing else is gained."""
    plain = run(pipe(n_stages, hop_s), n_tokens=400)
    seconds = []
    for runner in (pipe(n_stages, hop_s, max_rows=2), pipe(n_stages, hop_s, max_rows=2)):
        runner.n_in_flight = [1, n_stages + 2][len(seconds)]
        assert run(runner, guessing(plain, lambda at: True), n_tokens=400) == plain
        seconds.append(runner.now_s)
    assert seconds[0] / seconds[1] > gain


@pytest.mark.parametrize("is_right", [lambda at: False, lambda at: at % 2 == 0, lambda at: at % 7 != 0])
def test_guesses_that_are_wrong_cost_little(is_right: Callable[[int], bool]) -> None:
    plain = run(pipe(), n_tokens=400)
    seconds = []
    for n_in_flight in (1, 4):
        runner = pipe()
        runner.n_in_flight = n_in_flight
        assert run(runner, guessing(plain, is_right), n_tokens=400) == plain
        seconds.append(runner.now_s)
    assert seconds[1] < 1.05 * seconds[0]


def test_what_was_sent_ahead_in_vain_is_recalled_and_counted() -> None:
    plain = run(pipe())
    runner, speculation = pipe(max_rows=3), guessing(plain, lambda at: at % 9 != 0)
    assert run(runner, speculation) == plain
    counts = speculation.counts
    assert counts.n_cancelled == runner.n_recalled > 5
    assert counts.n_accepted <= counts.n_drafted
    assert counts.n_steps < 120


def test_a_step_ahead_that_never_pays_is_seldom_sent() -> None:
    """Stages that share one core: a step that is behind another takes as long as by itself."""
    shares = AheadShares()
    n_sent = 0
    for _ in range(500):
        shares.pass_token()
        if shares.saved(0.9):
            n_sent += 1
            shares.observe_following(1.0)
            shares.observe_leading(1.1)
    assert 2 < n_sent < 100


@pytest.mark.parametrize("make", [RememberingRunner, pipe])
@pytest.mark.parametrize("n_taken", range(1, 30))
def test_a_caller_may_stop_anywhere_also_with_steps_under_way(n_taken: int, make: Callable[[], Steps]) -> None:
    plain = run(pipe())
    runner, speculation = make(), guessing(plain, lambda at: at % 11 != 5)
    sequence = CachedSequence(runner, 0)
    events = generate(sequence, PROMPT, GREEDY, 200, N_VOCAB, speculation)
    taken = [event.id for event in islice((e for e in events if isinstance(e, Token)), n_taken)]
    events.close()
    assert sequence.ids == [*PROMPT, *taken][:-1]
    longer = [*PROMPT, *taken, 7, 7]
    again = [e.id for e in generate(sequence, longer, GREEDY, 9, N_VOCAB, speculation) if isinstance(e, Token)]
    afresh = generate(CachedSequence(make(), 0), longer, GREEDY, 9, N_VOCAB)
    assert again == [e.id for e in afresh if isinstance(e, Token)]
