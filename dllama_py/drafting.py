"""Who guesses for a model, and the small model that may: which may, and how it is held. The root alone has it.

It needs no other rank: its tokens come one after the other, and while it makes them the others have nothing to do. It
runs on the threads of the root, which are idle then too.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dllama_py.cluster.registry import find_model
from dllama_py.engine.draft_model import DraftModel
from dllama_py.engine.lookup import Lookup
from dllama_py.engine.sampler import SamplerSettings
from dllama_py.engine.speculation import NO_SPECULATION, Speculating, Speculation
from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import Checkpoint, open_checkpoint
from dllama_py.formats.soundness import refuse_broken
from dllama_py.orders import Orders
from dllama_py.settings import DRAFT, LOOKUP, OFF, EngineSettings
from dllama_py.sharding.kinds import halves_cache, tensor_kinds, weights_type
from dllama_py.sharding.plan import make_plan

if TYPE_CHECKING:  # needs compiled code
    from dllama_py.engine.runner import Runner

MOST_PADDING = 128  # rows: models of one family pad the same vocabulary to different sizes


@dataclass(frozen=True, slots=True)
class Draft:
    """A model that may guess, and its orders for a world of one."""

    checkpoint: Checkpoint
    orders: Orders


def with_speculation(settings: EngineSettings) -> EngineSettings:
    """The same, `speculate` decided. UsageError if that and the draft do not fit together."""
    mode = settings.speculate or (DRAFT if settings.draft else OFF)
    if mode == DRAFT and settings.draft is None:
        raise UsageError("--speculate draft needs a small model of the same vocabulary; name it with --draft")
    if mode != DRAFT and settings.draft is not None:
        raise UsageError(f"--speculate {mode} uses no small model and --draft names one; give one of them")
    return replace(settings, speculate=mode)


class Speculations:
    """One for each slot of the cache: what was learned there outlives an answer. `draft`: runs the small model."""

    def __init__(self, mode: str | None, draft: "Runner | None") -> None:
        self._mode = mode
        self._draft = draft
        self._models: dict[int, DraftModel] = {}
        self._of_slots: dict[int, Speculation] = {}

    def of(self, slot: int, sampling: SamplerSettings, n_vocab: int) -> Speculating:
        """For the next answer in a slot. `n_vocab`: ids below it may be sampled."""
        if self._draft is None and self._mode != LOOKUP:
            return NO_SPECULATION
        if self._draft is None:
            return self._of_slots.setdefault(slot, Speculation(Lookup()))
        n_tokens = min(n_vocab, self._draft.config.vocab_size)
        if slot not in self._models:
            self._models[slot] = DraftModel(self._draft, sampling, n_tokens, slot)
            self._of_slots[slot] = Speculation(self._models[slot])
        self._models[slot].draw_as(sampling, n_tokens)
        return self._of_slots[slot]


def decide_draft(path: Path, weights: str | None, target: Orders) -> Draft:
    """UsageError unless the vocabulary is that of the target, but for padding. `weights`: of a folder, as wished."""
    checkpoint = open_checkpoint(find_model(path))
    config = checkpoint.config
    if abs(config.vocab_size - target.config.vocab_size) > MOST_PADDING:
        raise UsageError(
            f"--draft {path} has a vocabulary of {config.vocab_size}, the model one of {target.config.vocab_size}: "
            "guesses are for models of one family; give a smaller one of the same, or --speculate lookup"
        )
    refuse_broken(checkpoint)
    make_plan(config, 1)
    kinds = tensor_kinds(checkpoint, weights_type(checkpoint, weights if path.is_dir() else None))
    context = min(target.context, config.context_length)
    half_cache = halves_cache(config, kinds, "auto")
    counts = (config.n_layers,)
    rows, slots = target.chunk_rows, target.n_slots
    orders = Orders(config, kinds, context, "f32", half_cache, False, rows, slots, counts, "f32", None)
    return Draft(checkpoint, orders)
