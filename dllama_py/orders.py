"""What the root decides and every rank must know: travels once, as JSON, before anything is loaded."""

import json
from dataclasses import dataclass

from dllama_py.blocks import FloatType
from dllama_py.config import ModelConfig


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

    def to_json(self) -> str:
        kinds = {name: kind.label for name, kind in self.kinds.items()}
        fields = {name: getattr(self, name) for name in self.__slots__ if name not in ("config", "kinds")}
        return json.dumps(fields | {"config": self.config.to_json(), "kinds": kinds})

    @classmethod
    def from_json(cls, text: str) -> "Orders":
        fields = json.loads(text)
        fields["config"] = ModelConfig.from_json(fields["config"])
        fields["kinds"] = {name: FloatType.named(label) for name, label in fields["kinds"].items()}
        return cls(**fields)
