"""From prompt ids to generated ids: the one token loop. Knows no text.

The loop itself computes nothing: it says what work is next and is given the result. So one sequence may have every step
for itself (`generate`), or many may share steps (together.py).
"""

import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass

from dllama_py.engine.collector import paused_collector
from dllama_py.engine.cost import FREE
from dllama_py.engine.sampler import SamplerSettings, sample
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.speculation import NO_SPECULATION, Speculating
from dllama_py.engine.step import StepCost, StepResult, Work


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


def generate(
    sequence: CachedSequence,
    prompt: Sequence[int],
    settings: SamplerSettings,
    n_tokens: int,
    n_vocab: int,
    speculation: Speculating = NO_SPECULATION,
) -> Iterator[Event]:
    """Computes the prompt, then up to `n_tokens` ids, as many as the context has room for.

    `n_vocab`: ids below it may be sampled. `speculation` makes steps of several ids, which are the same ids. The
    caller stops at end tokens by ending the iteration.
    """
    with closing(token_loop(sequence, prompt, settings, n_tokens, n_vocab, speculation)) as loop:
        item = next(loop, None)
        while item is not None:
            if isinstance(item, Work):
                item = loop.send(sequence.runner.forward(item))
            else:
                yield item
                item = next(loop, None)


def token_loop(
    sequence: CachedSequence,
    prompt: Sequence[int],
    settings: SamplerSettings,
    n_tokens: int,
    n_vocab: int,
    speculation: Speculating = NO_SPECULATION,
) -> Loop:
    """As `generate`, but whoever runs it computes the work that it yields, and sends the result."""
    ask = settings.ask(n_vocab)
    reused = sequence.start(prompt)
    for work in sequence.chunks(prompt[reused:], ask=ask):
        step = yield from _computed(work)
        yield PromptChunk(step.cost, reused)
    speculation.start(prompt)
    with paused_collector():
        drafted: Sequence[int] = ()
        n_left = n_tokens
        while n_left > 0:
            for token in _drawn(sequence, step, drafted, settings):
                yield token
                n_left -= 1
                if n_left == 0 or sequence.room == 0:
                    return
                speculation.add(token.id)
            drafted = speculation.draft(min(n_left - 1, sequence.most_drafted))
            step = yield from _computed(sequence.check(token.id, drafted, ask))
            speculation.spent(step.cost)


def _computed(work: Work) -> Generator[Work, StepResult | None, StepResult]:
    result = yield work
    assert result is not None, "a loop is sent what became of its work"
    return result


def _drawn(
    sequence: CachedSequence, step: StepResult, drafted: Sequence[int], settings: SamplerSettings
) -> Iterator[Token]:
    """The ids that a step gives: of its first row, and of each drafted one that is the id drawn before it."""
    cost = step.cost
    for scores, expected in zip(step.scores, (*drafted, None), strict=True):
        id = sample(scores, settings, len(sequence.ids) - 1)
        yield Token(id, cost + scores.rest.cost, time.perf_counter())
        if id != expected:
            return
        sequence.confirm(id)
        cost = FREE
