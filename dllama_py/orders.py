"""What the root decides and every rank must know: travels once, as JSON, before anything is loaded."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from dllama_py.blocks import FloatType
from dllama_py.config import ModelConfig
from dllama_py.errors import UsageError
from dllama_py.formats.identity import LocalCopy
from dllama_py.sharding.grid import Grid, make_grid


@dataclass(frozen=True, slots=True)
class Orders:
    """What a rank must know beside its rank."""

    config: ModelConfig
    kinds: dict[str, FloatType]
    context: int
    exchange: str
    half_cache: bool
    replicate_kv: bool
    chunk_rows: int
    n_slots: int
    layer_counts: tuple[int, ...]  # of each stage
    activations: str
    local: LocalCopy | None  # where a rank may find the model itself
    plan_only: bool = False  # nothing is loaded
    stage_width: int | None = None  # ranks of a stage, where not all ranks have a stage
    reads_memory: bool = False  # how fast it can be read will be measured

    def grid(self, n_ranks: int) -> Grid:
        """For so many ranks."""
        return make_grid(self.config.n_layers, n_ranks, self.layer_counts, self.stage_width)

    def check_prompt(self, ids: Sequence[int]) -> None:
        """UsageError unless the ids exist and fit the context."""
        unknown = [token for token in ids if not 0 <= token < self.config.vocab_size]
        if unknown:
            raise UsageError(f"token {unknown[0]} does not exist; the model knows 0 to {self.config.vocab_size - 1}")
        if not ids:
            raise UsageError("the prompt is empty; give at least one token")
        if len(ids) > self.context:
            raise UsageError(
                f"the prompt has {len(ids)} tokens, the context {self.context}; shorten it or raise --max-seq-len "
                f"(this model allows {self.config.context_length})"
            )

    def to_json(self) -> str:
        kinds = {name: kind.label for name, kind in self.kinds.items()}
        fields = {name: getattr(self, name) for name in self.__slots__ if name not in ("config", "kinds", "local")}
        fields["local"] = asdict(self.local) if self.local else None
        return json.dumps(fields | {"config": self.config.to_json(), "kinds": kinds})

    @classmethod
    def from_json(cls, text: str) -> "Orders":
        fields = json.loads(text)
        fields["config"] = ModelConfig.from_json(fields["config"])
        fields["kinds"] = {name: FloatType.named(label) for name, label in fields["kinds"].items()}
        fields["layer_counts"] = tuple(fields["layer_counts"])
        fields["local"] = LocalCopy(**fields["local"]) if fields["local"] else None
        return cls(**fields)
