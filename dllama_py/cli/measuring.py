"""Generations that are timed: what `bench` counts in all its forms. End tokens are ignored."""

import argparse
import time
from dataclasses import dataclass, field

from dllama_py.boot import Engine
from dllama_py.engine.cost import StepCost
from dllama_py.engine.generate import generate
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.sequence import CachedSequence
from dllama_py.engine.token_loop import PromptChunk, Token
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import Checkpoint
from dllama_py.formats.tensors import tensor_specs
from dllama_py.orders import Orders

WARM_TOKENS = 4
ANY_ID = 1 << 31


@dataclass(slots=True)
class Phases:
    """Of one generation. `times_s`: when each token was there, on the clock of time.perf_counter."""

    started_s: float = field(default_factory=time.perf_counter)
    times_s: list[float] = field(default_factory=list)
    costs: list[StepCost] = field(default_factory=list)

    @property
    def prefill_s(self) -> float:
        return self.times_s[0] - self.started_s

    @property
    def decode_s(self) -> float:
        return self.times_s[-1] - self.times_s[0]

    @property
    def n_decoded(self) -> int:
        """Tokens that took a step of their own."""
        return len(self.times_s) - 1

    @property
    def decode_costs(self) -> list[StepCost]:
        return self.costs[1:]


def check_room(arguments: argparse.Namespace, checkpoint: Checkpoint, orders: Orders) -> None:
    """UsageError if --prompt-tokens and --steps do not fit the context."""
    n_positions = arguments.prompt_tokens + arguments.steps
    if n_positions > orders.context:
        raise UsageError(
            f"{n_positions} tokens do not fit the context of {orders.context}; lower --steps or raise --max-seq-len"
        )


def warmed_up(engine: Engine, prompt: list[int], n_steps: int) -> CachedSequence:
    """A sequence that has held as many tokens as prompt and steps, none of which can be reused: its memory is there."""
    sequence = CachedSequence(engine.runner, slot=0)
    first = prompt[0] + 1
    n_tokens = len(prompt) + max(n_steps - WARM_TOKENS, 0)
    generated(sequence, [(first + i) % engine.orders.config.vocab_size for i in range(n_tokens)], WARM_TOKENS)
    return sequence


def generated(sequence: CachedSequence, prompt: list[int], n_steps: int) -> Phases:
    """One generation, greedy."""
    phases = Phases()
    for event in generate(sequence, prompt, SamplerSettings(), n_steps, ANY_ID):
        match event:
            case Token(cost=cost, at_s=at_s):
                phases.times_s.append(at_s)
                phases.costs.append(cost)
            case PromptChunk():
                pass
    return phases


def some_prompt(engine: Engine, n_tokens: int) -> list[int]:
    """Ids that are always the same."""
    return [(7 * i + 13) % engine.orders.config.vocab_size for i in range(n_tokens)]


def macs_per_prompt_token(engine: Engine) -> int:
    """Multiplications of matrices by one prompt row, over all ranks: active experts, without the head."""
    config = engine.orders.config
    total = 0
    for spec in tensor_specs(config):
        if spec.layer is not None and len(spec.shape) == 2:
            share = config.n_active_experts / config.n_experts if spec.expert is not None else 1
            total += int(spec.n_elements * share)
    return total
