"""The small model that guesses for a large one: which may, and how it is held. The root alone has it.

It needs no other rank: its tokens come one after the other, and while it makes them the others have nothing to do. It
runs on the threads of the root, which are idle then too.
"""

from dataclasses import dataclass
from pathlib import Path

from dllama_py.errors import UsageError
from dllama_py.formats.checkpoint import Checkpoint, open_checkpoint
from dllama_py.formats.soundness import refuse_broken
from dllama_py.orders import Orders
from dllama_py.sharding.kinds import halves_cache, tensor_kinds, weights_type
from dllama_py.sharding.plan import make_plan

MOST_PADDING = 128  # rows: models of one family pad the same vocabulary to different sizes


@dataclass(frozen=True, slots=True)
class Draft:
    """A model that may guess, and its orders for a world of one."""

    checkpoint: Checkpoint
    orders: Orders


def decide_draft(path: Path, weights: str | None, target: Orders) -> Draft:
    """UsageError unless the vocabulary is that of the target, but for padding. `weights`: of a folder, as wished."""
    checkpoint = open_checkpoint(path)
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
    orders = Orders(
        config, kinds, context, "f32", half_cache, False, target.chunk_rows, 1, (config.n_layers,), "f32", None
    )
    return Draft(checkpoint, orders)
