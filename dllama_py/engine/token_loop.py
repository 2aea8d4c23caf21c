"""From prompt ids to generated ids: the one token loop. Knows no text.

The loop itself computes nothing: it says what work is next and is given the result. So one sequence may have every step
for itself, or many may share steps (together.py).
"""

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

from dllama_py.engine.collector import paused_collector
from dllama_py.engine.cost import FREE
from dllama_py.engine.sampler import SamplerSettings, sample
from dllama_py.engine.scores import Ask
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.speculation import NO_SPECULATION, Speculating
from dllama_py.engine.step import NOTHING_MORE, StepCost, StepResult, Work


@dataclass(frozen=True, slots=True)
class PromptChunk:
    """A part of the prompt has been computed. `reused`: ids of the prompt that were in the cache."""

    cost: StepCost
    reused: int


@dataclass(frozen=True, slots=True)
class Token:
    """A sampled id, and the cost of the step whose logits it came from (for the first: the prompt's last chunk).

    Of several ids of one step the first bears its cost. `at_s`: when it was there, on the clock of time.perf_counter.
    """

    id: int
    cost: StepCost
    at_s: float


Event = PromptChunk | Token
Loop = Generator[Work | Event, StepResult | None, None]


def token_loop(
    sequence: CachedSequence,
    prompt: Sequence[int],
    settings: SamplerSettings,
    n_tokens: int,
    n_vocab: int,
    speculation: Speculating = NO_SPECULATION,
) -> Loop:
    """Computes the prompt, then up to `n_tokens` ids, as many as the context has room for.

    `n_vocab`: ids below it may be sampled. `speculation` makes steps of several ids, which are the same ids.

    Whoever runs it sends for each work the result, in the order of the works, and nothing for an event. For a work it
    may also send None: there is room for a step ahead, which is then yielded, or NOTHING_MORE. Works under way are void
    once a work comes that is not ahead, and when the loop ends. It may be closed at any event.
    """
    ask = settings.ask(n_vocab)
    step = yield from _computed_prompt(sequence, prompt, ask)
    speculation.start(prompt)
    with paused_collector():
        n_left = n_tokens
        while n_left > 0:
            goes_on = False  # with ids that are under way already
            for token in _drawn(sequence, step, settings):
                yield token
                n_left -= 1
                if n_left == 0 or sequence.room == 0:
                    return
                speculation.add(token.id)
                goes_on = sequence.confirm(token.id)
                if not goes_on:
                    break
            work = NOTHING_MORE
            if not goes_on:
                drafted = speculation.draft(min(n_left - 1, sequence.most_drafted))
                work = sequence.check(token.id, drafted, ask)
            result = yield work
            while result is None:
                ahead = speculation.ahead(min(n_left - 1 - sequence.n_sent, sequence.most_ahead))
                result = yield sequence.check_ahead(ahead, ask) if ahead else NOTHING_MORE
            step = result
            speculation.spent(len(step.scores), step.cost.seconds)


def _computed_prompt(
    sequence: CachedSequence, prompt: Sequence[int], ask: Ask
) -> Generator[Work | Event, StepResult | None, StepResult]:
    """-> the result of the last chunk."""
    reused = sequence.start(prompt)
    result: StepResult | None = None
    for work in sequence.chunks(prompt[reused:], ask=ask):
        result = yield work
        while result is None:
            result = yield NOTHING_MORE
        yield PromptChunk(result.cost, reused)
    assert result is not None, "the last id of a prompt is always computed"
    return result


def _drawn(sequence: CachedSequence, step: StepResult, settings: SamplerSettings) -> Iterator[Token]:
    """The ids that a step's rows give, as long as each is confirmed before the next is asked for."""
    cost = step.cost
    for scores in step.scores:
        id = sample(scores, settings, len(sequence.ids) - 1)
        yield Token(id, cost + scores.rest.cost, time.perf_counter())
        cost = FREE
