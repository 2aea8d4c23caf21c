"""From prompt ids to generated ids: the one token loop. Knows no text."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dllama_py.engine.collector import paused_collector
from dllama_py.engine.sampler import SamplerSettings, sample
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.step import StepCost


@dataclass(frozen=True, slots=True)
class PromptChunk:
    """A part of the prompt has been computed. `reused`: ids of the prompt that were in the cache."""

    cost: StepCost
    reused: int


@dataclass(frozen=True, slots=True)
class Token:
    """A sampled id, and the cost of the step whose logits it came from (for the first: the prompt's last chunk).

    `at_s`: when it was there, on the clock of time.perf_counter.
    """

    id: int
    cost: StepCost
    at_s: float


def generate(
    sequence: CachedSequence, prompt: Sequence[int], settings: SamplerSettings, n_tokens: int, n_vocab: int
) -> Iterator[PromptChunk | Token]:
    """Computes the prompt, then up to `n_tokens` ids, as many as the context has room for.

    `n_vocab`: ids below it may be sampled. The caller stops at end tokens by ending the iteration.
    """
    ask = settings.ask(n_vocab)
    reused = sequence.start(prompt)
    for step in sequence.feed(prompt[reused:], ask=ask):
        yield PromptChunk(step.cost, reused)
    with paused_collector():
        for n_left in range(n_tokens, 0, -1):
            (scores,) = step.scores
            token = sample(scores, settings, len(sequence.ids) - 1)
            yield Token(token, step.cost + scores.rest.cost, time.perf_counter())
            if n_left == 1 or sequence.room == 0:
                return
            (step,) = sequence.feed([token], ask=ask)
