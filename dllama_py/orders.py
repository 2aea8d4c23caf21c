"""What the root decides and every rank must know: travels once, as JSON, before anything is loaded."""

import json
from dataclasses import asdict, dataclass

from dllama_py.blocks import FloatType
from dllama_py.config import ModelConfig
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

    def grid(self, n_ranks: int) -> Grid:
        """For so many ranks."""
        return make_grid(self.config.n_layers, n_ranks, self.layer_counts)

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
