"""Typed look-ups in GGUF metadata. Keys are `<architecture>.<fact>`; see ggml's docs/gguf.md."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dllama_py.errors import InputError


class Facts:
    """Typed look-ups of `<architecture>.<fact>`."""

    def __init__(self, path: Path, metadata: Mapping[str, Any], name: str) -> None:
        self.path = path
        self._metadata = metadata
        self._name = name

    def __contains__(self, fact: str) -> bool:
        return f"{self._name}.{fact}" in self._metadata

    def get(self, fact: str, default: Any) -> Any:
        return self._metadata.get(f"{self._name}.{fact}", default)

    def whole(self, fact: str, default: int | None = None) -> int:
        """A whole number; a list with one value for all layers counts as that value."""
        value = self.get(fact, default)
        if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and value.size and (value == value[0]).all():
            return int(value[0])
        if type(value) is not int:
            raise self.error(fact, value, "a whole number, the same for all layers")
        return value

    def number(self, fact: str, default: float | None = None) -> float:
        """A float as the shortest decimal that gives the float32 of the file: 1e-05, not 9.99999974e-06."""
        value = self.get(fact, default)
        if type(value) not in (int, float):
            raise self.error(fact, value, "a number")
        return float(str(np.float32(value)))

    def error(self, fact: str, found: object, expected: str) -> InputError:
        shown = "missing" if found is None else str(found)[:60].replace("\n", " ")
        return InputError(f"{self.path}: {self._name}.{fact} is {shown}, expected {expected}")
