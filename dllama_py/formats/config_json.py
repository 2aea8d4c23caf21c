"""Typed look-ups in a config.json. It does not know what the keys mean."""

import json
from pathlib import Path
from typing import Any

from dllama_py.errors import InputError


class ConfigJson:
    """Typed look-ups; a null counts as absent."""

    def __init__(self, path: Path, values: dict[str, Any]) -> None:
        self.path = path
        self.values = values

    def get(self, key: str, default: Any = None) -> Any:
        value = self.values.get(key)
        return default if value is None else value

    def whole(self, key: str, default: int | None = None) -> int:
        value = self.get(key, default)
        if type(value) is not int:
            raise self.error(key, "a whole number")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self.get(key, default)
        if type(value) not in (int, float):
            raise self.error(key, "a number")
        return float(value)

    def part(self, key: str) -> "ConfigJson":
        """A nested object; empty if absent."""
        value = self.get(key, {})
        if type(value) is not dict:
            raise self.error(key, "an object")
        return ConfigJson(self.path, value)

    def error(self, key: str, expected: str) -> InputError:
        found = json.dumps(self.values[key])[:60] if key in self.values else "missing"
        return InputError(f"{self.path}: {key} is {found}, expected {expected}")
