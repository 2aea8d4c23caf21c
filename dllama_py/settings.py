"""What a user may wish of a run, before anything is opened. Ground floor: names, defaults and what cannot be meant."""

import math
from collections.abc import Collection
from dataclasses import dataclass
from numbers import Real
from pathlib import Path
from typing import Any

from dllama_py.errors import UsageError
from dllama_py.home import expanded

DEFAULT_CONTEXT = 4096  # positions
DEFAULT_CHUNK_ROWS = 64

EXCHANGES = ("f32", "bf16", "q80")
ACTIVATIONS = ("f32", "bf16", "int8", "int8-row")
LOCAL_COPIES = ("auto", "strict", "off")
AUTO, TENSOR, PIPELINE = TOPOLOGIES = ("auto", "tensor", "pipeline")
CACHE_TYPES = ("auto", "f32", "f16")
OFF, LOOKUP, DRAFT = SPECULATIONS = ("off", "lookup", "draft")
WEIGHT_TYPES = ("q40", "q80", "f16", "f32")


def check_number(name: str, value: Any, least: int = 1) -> None:
    """UsageError unless it is a whole number and that large."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise UsageError(f"{name} is {value!r}; expected a whole number from {least}")


def check_real(name: str, value: Any, least: float, most: float = math.inf, meaning: str = "") -> None:
    """UsageError unless it is a finite number of that range. `meaning`: of the ends of the range, for the message."""
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    if not math.isfinite(number) or not least <= number <= most:
        expected = f"a number from {least:g}" + ("" if most == math.inf else f" to {most:g}")
        raise UsageError(f"{name} is {value!r}; expected {expected}{meaning}")


def checked_path(name: str, value: Any) -> Path:
    """UsageError unless it is a path, or the text of one. `~` is the user's own folder, as a shell has it."""
    if not isinstance(value, str | Path) or not str(value) or "\0" in str(value):
        raise UsageError(f"{name} is {value!r}; expected the path of a file or folder")
    return expanded(Path(value))


def _check_name(name: str, value: Any, known: Collection[str]) -> None:
    if value not in known:
        raise UsageError(f"{name} is {value!r}; expected {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class PipelineSettings:
    """Layers split among stages. `n_stages`: None for one a rank. `split`: how many layers each has, or auto.

    `local_copies`: whether ranks read their layers from a copy of the root's file in the same place; auto: yes, and
    what differs comes from the root; strict: what differs is refused; off: all comes from the root.

    `or_tensor`: the topology auto, only if it is faster than ranks that share every layer. `plan`: a saved plan to
    follow instead; `save_plan`: where to write down the plan that is made; `plan_only`: make it and load nothing.
    """

    n_stages: int | None = None
    split: str = "auto"
    activations: str = "f32"
    plan: Path | None = None
    save_plan: Path | None = None
    plan_only: bool = False
    local_copies: str = "auto"
    or_tensor: bool = False

    def __post_init__(self) -> None:
        if self.n_stages is not None:
            check_number("n_stages", self.n_stages)
        if not isinstance(self.split, str):
            raise UsageError(f"split is {self.split!r}; expected auto, or a text such as '8,16,8'")
        _check_name("activations", self.activations, ACTIVATIONS)
        _check_name("local_copies", self.local_copies, LOCAL_COPIES)
        for name, path in (("plan", self.plan), ("save_plan", self.save_plan)):
            if not isinstance(path, Path | None):
                raise UsageError(f"{name} is {path!r}; expected a pathlib.Path")


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """What a user may wish of a run; the same for every request. None: the default of the model or the machine.

    `speculate`: who guesses, one of SPECULATIONS; None for draft where there is one, else off. `draft`: a small model
    that guesses at the root, if any. `pipeline`: None where all ranks share every layer. `reads_memory`: whether it
    will be measured how fast memory can be read, which takes some.
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
    reads_memory: bool = False

    def __post_init__(self) -> None:
        """UsageError for what no default and no number of nodes could mend."""
        wishes = {"n_threads": self.n_threads, "context": self.context}
        numbers = {"chunk_rows": self.chunk_rows, "n_slots": self.n_slots}
        for name, value in (numbers | {each: wish for each, wish in wishes.items() if wish is not None}).items():
            check_number(name, value)
        if not isinstance(self.replicate_kv, bool):
            raise UsageError(f"replicate_kv is {self.replicate_kv!r}; expected True or False")
        _check_name("exchange", self.exchange, EXCHANGES)
        _check_name("cache_type", self.cache_type, CACHE_TYPES)
        if self.weights is not None:
            _check_name("weights", self.weights, WEIGHT_TYPES)
        if self.speculate is not None:
            _check_name("speculate", self.speculate, SPECULATIONS)
        if not isinstance(self.pipeline, PipelineSettings | None):
            raise UsageError(f"pipeline is {self.pipeline!r}; expected PipelineSettings, or topology='pipeline'")
