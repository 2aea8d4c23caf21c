"""The plan of a pipeline: stages with their layers, what they need, and how fast the whole will be."""

import hashlib
from dataclasses import dataclass

from dllama_py.config import ModelConfig
from dllama_py.formats.tensors import tensor_specs
from dllama_py.sharding.kinds import Kinds

PROMPT_TOKENS = 512  # of the prompt whose speed is foretold


@dataclass(frozen=True, slots=True)
class Model:
    """By which a saved plan knows its model again. `digest`: of the names, shapes and types of all tensors."""

    name: str
    n_layers: int
    weights_bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class StagePlan:
    """`layers` is empty for a stage that is left out. Bytes are those of the rank that needs most; `free_bytes` None
    where its host does not say. Seconds, without hops: of a decoded token, and of a chunk of a prompt while all stages
    are at work."""

    number: int
    ranks: tuple[int, ...]
    hosts: tuple[str, ...]
    layers: range
    weights_bytes: int
    cache_bytes: int
    needs_bytes: int
    free_bytes: int | None
    token_s: float
    chunk_s: float


@dataclass(frozen=True, slots=True)
class Plan:
    """`token_s`: of one sequence, hops included; `together_s`: of `n_sequences` at once; `prompt_s`: of a prompt of
    PROMPT_TOKENS in chunks of `chunk_rows`.

    `is_measured`: the ranks are real ones; else they are assumed, and no host has a name yet.
    """

    model: Model
    context: int
    chunk_rows: int
    stages: tuple[StagePlan, ...]
    token_s: float
    hops_s: float
    prompt_s: float
    n_sequences: int
    together_s: float
    notes: tuple[str, ...] = ()
    is_measured: bool = True

    @property
    def counts(self) -> tuple[int, ...]:
        """Layers of each stage."""
        return tuple(len(stage.layers) for stage in self.stages)

    @property
    def decode_tok_s(self) -> float:
        """Of one sequence."""
        return 1 / self.token_s

    @property
    def batch_tok_s(self) -> float:
        """Of `n_sequences` at once."""
        return 1 / self.together_s

    @property
    def prefill_tok_s(self) -> float:
        return PROMPT_TOKENS / self.prompt_s

    def prefill_tok_s_of(self, n_tokens: int) -> float:
        """Of a prompt of at least one chunk: a longer one passes the slowest stage so much longer."""
        n_more = (n_tokens - PROMPT_TOKENS) / self.chunk_rows
        return n_tokens / (self.prompt_s + n_more * max(stage.chunk_s for stage in self.stages))


def digest(config: ModelConfig, kinds: Kinds) -> str:
    """SHA-256 of the names, shapes and types of all tensors."""
    kind_of = {name: kind.label for name, kind in kinds.items()}
    lines = [f"{spec.name} {spec.shape} {kind_of.get(spec.name, '')}" for spec in tensor_specs(config)]
    return hashlib.sha256("\n".join([config.arch, *lines]).encode()).hexdigest()
