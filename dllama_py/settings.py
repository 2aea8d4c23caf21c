"""What a user may wish of a run, before anything is opened. Ground floor: names and defaults only."""

from dataclasses import dataclass
from pathlib import Path

DEFAULT_CONTEXT = 4096  # positions
DEFAULT_CHUNK_ROWS = 64

EXCHANGES = ("f32", "bf16", "q80")
ACTIVATIONS = ("f32", "bf16", "int8", "int8-row")
TOPOLOGIES = ("tensor", "pipeline")
CACHE_TYPES = ("auto", "f32", "f16")
OFF, LOOKUP, DRAFT = SPECULATIONS = ("off", "lookup", "draft")
WEIGHT_TYPES = ("q40", "q80", "f16", "f32")


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Layers split among stages. `n_stages`: None for one a rank. `split`: how many layers each has, or auto.

    `plan`: a saved plan to follow instead; `save_plan`: where to write down the plan that is made; `plan_only`: make it
    and load nothing.
    """

    n_stages: int | None = None
    split: str = "auto"
    activations: str = "f32"
    plan: Path | None = None
    save_plan: Path | None = None
    plan_only: bool = False


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What a user may wish of a run; the same for every request. None: the default of the model or the machine.

    `speculate`: who guesses, one of SPECULATIONS; None for draft where there is one, else off. `draft`: a small model
    that guesses at the root, if any. `pipeline`: None where all ranks share every layer.
    """

    weights: str | None = None
    n_threads: int | None = None
    context: int | None = None
    exchange: str = "f32"
    cache_type: str = "auto"
    replicate_kv: bool = False
    chunk_rows: int = DEFAULT_CHUNK_ROWS
    n_slots: int = 1
    speculate: str | None = None
    draft: Path | None = None
    pipeline: PipelineSettings | None = None
